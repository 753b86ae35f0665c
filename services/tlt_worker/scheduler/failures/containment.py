"""
Recovery of SGLang's scheduler from a round that raised an exception.

The round's requests are retracted, as for a weight update: their KV cache is freed, and they run again from the tokens
they have. `Suspects` finds the one that is the cause. The process ends, as without this module, if the device does not
respond to a synchronisation any more, if the KV cache cannot be freed, or if the engine has several ranks, which may
not have failed together. On a GPU the next round may have been launched when one fails; its result is dropped.

Written against SGLang 0.5.23: `Scheduler.event_loop_overlap`, `pause_generation` (its mode `retract`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import torch

from tlt_common.telemetry.log import get_logger
from tlt_worker.scheduler.failures.settling import settle
from tlt_worker.scheduler.failures.suspects import Suspects

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FailedRound:
    """Takes the place of the result of a round that failed; there is nothing to process."""

    delay_sample_func: None = None
    """Read by SGLang's loop."""


def run_contained(original: Callable[..., Any], self: Any, batch: Any, *args: Any, **kw: Any) -> Any:
    """Wrap `Scheduler.run_batch`."""
    if not batch.reqs and not batch.forward_mode.is_idle():
        return FailedRound()  # dropped after it was planned
    try:
        return original(self, batch, *args, **kw)
    except Exception as error:
        if not _can_recover(self, error):
            raise
        names = _names(batch.reqs)
        drain(self)
        _contain(self, batch, names, error)
        return FailedRound()


def process_contained(process: Callable[..., Any], self: Any, batch: Any, result: Any, *args: Any, **kw: Any) -> Any:
    """Run `process`, which processes the result of a round."""
    if isinstance(result, FailedRound):
        return None
    names = _names(batch.reqs)
    try:
        outcome = process(self, batch, result, *args, **kw)
    except Exception as error:
        if not _can_recover(self, error):
            raise
        allocator = self.token_to_kv_pool_allocator
        if allocator.free_group is not None:
            allocator.free_group_end()
        settle(self, batch)
        _contain(self, batch, names, error)
        return None
    suspects = suspects_of(self)
    suspects.passed(names)
    for req in batch.reqs:
        if req.finished():
            suspects.forget(req.rid)
    return outcome


def admit_one_suspect(original: Callable[..., Any], self: Any, running_batch: Any) -> Any:
    """Wrap `Scheduler.get_new_batch_prefill`: suspects wait for each other, and a batch may fail to be prepared."""
    chunked = [self.chunked_req] if self.chunked_req is not None else []
    held = suspects_of(self).held_back(_names(self.waiting_queue), _names([*running_batch.reqs, *chunked]))
    back = [req for req in self.waiting_queue if req.rid in held]
    before = [*chunked, *(req for req in self.waiting_queue if req.rid not in held)]
    self.waiting_queue = before[len(chunked) :]
    try:
        return original(self, running_batch)
    except Exception as error:
        if not _can_recover(self, error):
            raise
        drain(self)
        # Of requests that the drained round finished, or that were retracted with it.
        running_batch.filter_batch(reqs_to_exclude=[req for req in running_batch.reqs if req.is_retracted])
        still = {req.rid for req in self.waiting_queue if not req.kv.holds_kv and req.lock is None}
        self.waiting_queue = [req for req in self.waiting_queue if req.rid in still]
        self.chunked_req = None
        _run_again(self, [req for req in before if req.rid not in still], _names(before), error)
        return _nothing_to_run(running_batch)
    finally:
        self.waiting_queue = [*self.waiting_queue, *back]


def suspects_of(scheduler: Any) -> Suspects:
    """Return the suspects of a scheduler."""
    suspects: Suspects = vars(scheduler).setdefault("tlt_suspects", Suspects())
    return suspects


def drain(scheduler: Any) -> None:
    """Process the round that is still in flight, so that its requests hold all their tokens."""
    queue = getattr(scheduler, "result_queue", None)
    if not queue:
        return
    while queue:
        scheduler.process_batch_result(*queue.popleft())
    scheduler.last_batch = None  # the loop would wait for its result


def _can_recover(scheduler: Any, error: Exception) -> bool:
    """Return whether the engine's state can still be trusted. A device that failed raises the same error again."""
    log.error("round_failed", exc_info=error)
    if scheduler.server_args.tp_size > 1 or scheduler.server_args.pp_size > 1:
        return False
    if scheduler.device != "cpu":
        torch.get_device_module(scheduler.device).synchronize()
    return True


def _contain(scheduler: Any, batch: Any, names: list[str], error: Exception) -> None:
    """Retract all requests the failure concerns, end those found to be its cause, and queue the others again."""
    dropped = [batch, *_in_flight(scheduler)]
    planned = scheduler.cur_batch_for_debug
    if planned is not None:
        dropped.append(planned)
    waiting = {req.rid for req in scheduler.waiting_queue}
    found = {req.rid: req for one in dropped for req in one.reqs if not req.finished() and req.rid not in waiting}
    reqs = list(found.values())
    for one in (scheduler.running_batch, scheduler.last_batch):
        if one is not None and not any(one is other for other in dropped):
            one.filter_batch(reqs_to_exclude=reqs)
            one.batch_is_full = False
    for one in dropped:
        one.reqs, one.batch_is_full = [], False
    if scheduler.chunked_req is not None and scheduler.chunked_req.rid in found:
        scheduler.chunked_req = None
    scheduler.draft_worker.forget_rounds()
    _run_again(scheduler, reqs, names, error)


def _run_again(scheduler: Any, reqs: list[Any], names: list[str], error: Exception) -> None:
    """Retract requests; end those found to be the cause of the error, and queue the others."""
    for req in reqs:
        _retract(scheduler, req)
    mine = {req.rid for req in reqs}
    ended = suspects_of(scheduler).blame([name for name in names if name in mine])
    for req in reqs:
        if req.rid in ended:
            _end(scheduler, req, error)
        else:
            scheduler._add_request_to_queue(req)  # noqa: SLF001 - as SGLang itself does after a retraction
    log.warning("round_contained", ended=len(ended), retracted=len(reqs) - len(ended))


def _in_flight(scheduler: Any) -> list[Any]:
    """Replace the results of launched rounds, whose requests are retracted, and return their batches."""
    queue: Any = getattr(scheduler, "result_queue", None) or []
    batches = [batch for batch, _ in queue]
    for place, batch in enumerate(batches):
        queue[place] = (batch, FailedRound())
    return batches


def _retract(scheduler: Any, req: Any) -> None:
    from sglang.srt.managers.schedule_batch import retract_all

    if not req.kv.holds_kv:  # the batch was not prepared far enough
        if req.lock is not None:
            scheduler.tree_cache.unlock(req.lock)
        req.reset_for_retract()
        return
    retract_all(
        reqs=[req],
        req_to_token_pool=scheduler.req_to_token_pool,
        token_to_kv_pool_allocator=scheduler.token_to_kv_pool_allocator,
        tree_cache=scheduler.tree_cache,
        hisparse_coordinator=scheduler.hisparse_coordinator,
        offload_kv=False,
    )


def _nothing_to_run(running_batch: Any) -> Any:
    from sglang.srt.managers.schedule_batch import NextBatchPlan

    return NextBatchPlan(batch_to_run=None, running_batch=running_batch)


def _end(scheduler: Any, req: Any, error: Exception) -> None:
    from sglang.srt.managers.schedule_batch import FINISH_ABORT
    from sglang.srt.managers.scheduler import _make_abort_req

    message = f"{type(error).__name__}: {error}"
    req.finished_reason = FINISH_ABORT(message, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError")
    scheduler._release_aborted_request(req)  # noqa: SLF001 - as SGLang itself does for a queued request
    scheduler.send_abort_output(_make_abort_req(req, finished_reason=req.finished_reason.to_json()), req)


def _names(reqs: Iterable[Any]) -> list[str]:
    return [req.rid for req in reqs]
