"""
Recovers from an exception between two rounds, while SGLang updates its batches and plans the next one.

Such an exception leaves batches half-updated: merged without their tensors, or short of a request that was just
retracted. All requests are therefore retracted and no batch is kept; a request alone holds its tokens and KV cache.
After the retraction, the KV cache must be whole, which is checked.

Written against SGLang 0.5.23: `Scheduler.get_next_batch_to_run`, which calls `get_new_batch_prefill` (contained in
`containment`), `process_pending_chunked_abort`, `stash_chunked_request` and `update_running_batch`.
"""

from collections.abc import Callable, Iterable
from typing import Any

from tlt_worker.scheduler.failures.recovery import UnrecoverableError, recovery
from tlt_worker.scheduler.failures.retraction import drain, end, names_of, nothing_to_run, run_again


def plan_contained(original: Callable[..., Any], self: Any, running_batch: Any, last_batch: Any) -> Any:
    """Wrap `Scheduler.get_next_batch_to_run`."""
    # What raises may have removed a request from its batch or from the queue already.
    started, waiting = live_requests(self, running_batch, last_batch), list(self.waiting_queue)
    try:
        return original(self, running_batch=running_batch, last_batch=last_batch)
    except Exception as error:
        names = names_of(started) or names_of(waiting)
        if not names:
            raise  # it would fail again for ever
        with recovery(self, error, "plan", names):
            retract_everything(self, [*started, *waiting], names, error)
        return nothing_to_run(self.running_batch)


def live_requests(scheduler: Any, running_batch: Any, last_batch: Any) -> list[Any]:
    """Return the requests that hold KV cache, each once."""
    found = dict.fromkeys(running_batch.reqs)
    if last_batch is not None:
        found.update(dict.fromkeys(last_batch.reqs))
    if scheduler.chunked_req is not None:
        found[scheduler.chunked_req] = None
    return list(found)


def retract_everything(scheduler: Any, reqs: Iterable[Any], names: list[str], error: Exception) -> None:
    """
    Retract the started requests of `reqs`, end those of `names` found to be the cause, and queue the others.

    Args:
        scheduler: SGLang's scheduler. It has no batch afterwards.
        reqs: All requests that had started or were waiting before the exception.
        names: Ids of possible causes; may be empty.
        error: What was raised.

    Raises:
        UnrecoverableError: Parts of the KV cache have no owner, or two.
    """
    from sglang.srt.managers.schedule_batch import ScheduleBatch

    drain(scheduler)
    aborted = scheduler._pending_chunked_abort_req  # noqa: SLF001 - a chunked request that is to end
    if aborted is not None and aborted.kv.holds_kv:
        aborted.finished_reason = aborted.to_finish = None  # SGLang sets it before it frees the KV cache
    waiting = {req.rid for req in scheduler.waiting_queue}
    started = [req for req in dict.fromkeys(reqs) if not req.finished() and req.rid not in waiting]
    scheduler.running_batch, scheduler.last_batch = ScheduleBatch(reqs=[], batch_is_full=False), None
    scheduler.cur_batch_for_debug = scheduler.chunked_req = scheduler._pending_chunked_abort_req = None  # noqa: SLF001
    run_again(scheduler, started, names, error)
    if aborted in scheduler.waiting_queue:
        scheduler.waiting_queue.remove(aborted)
        end(scheduler, aborted, error)
    _require_whole_cache(scheduler)


def _require_whole_cache(scheduler: Any) -> None:
    """Check, as SGLang does when idle, that all KV cache is free or kept for a later prompt."""
    checker = scheduler.invariant_checker
    is_leaking, messages = checker._check_all_pools(scheduler.pool_stats_observer.get_pool_stats())  # noqa: SLF001
    pool = scheduler.req_to_token_pool
    if is_leaking or len(pool.free_slots) != pool.size + pool.pre_alloc_size:
        raise UnrecoverableError("the KV cache is not whole: " + " ".join(messages))
