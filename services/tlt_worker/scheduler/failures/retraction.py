"""
Retracts the requests that a failure concerns, as for a weight update, and runs them again.

Their KV cache is freed, and they continue from the tokens they have. `Suspects` finds the one that is the cause.

Written against SGLang 0.5.23: `Scheduler.pause_generation` (its mode `retract`).
"""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from tlt_common.telemetry.log import get_logger
from tlt_worker.scheduler.failures.suspects import Suspects

log = get_logger(__name__)


def suspects_of(scheduler: Any) -> Suspects:
    """Return a scheduler's suspects."""
    suspects: Suspects = vars(scheduler).setdefault("tlt_suspects", Suspects())
    return suspects


def names_of(reqs: Iterable[Any]) -> list[str]:
    """Return the ids of requests."""
    return [req.rid for req in reqs]


def drain(scheduler: Any) -> None:
    """Process the round in flight, so that its requests hold all their tokens."""
    queue = getattr(scheduler, "result_queue", None)
    if not queue:
        return
    while queue:
        scheduler.process_batch_result(*queue.popleft())
    scheduler.last_batch = None  # the loop would wait for its result


def run_again(scheduler: Any, reqs: list[Any], names: list[str], error: Exception) -> None:
    """Retract requests, end those of `names` found to be the cause of the error, and queue the others."""
    for req in reqs:
        _retract(scheduler, req)
    mine = {req.rid for req in reqs}
    ended = suspects_of(scheduler).blame([name for name in names if name in mine])
    for req in reqs:
        if req.rid in ended:
            end(scheduler, req, error)
        else:
            scheduler._add_request_to_queue(req)  # noqa: SLF001 - as SGLang itself does after a retraction
    log.warning("requests_retracted", ended=len(ended), retracted=len(reqs) - len(ended))


def end(scheduler: Any, req: Any, error: Exception) -> None:
    """End a request that holds no KV cache, with the error as its reason."""
    from sglang.srt.managers.schedule_batch import FINISH_ABORT
    from sglang.srt.managers.scheduler import _make_abort_req

    message = f"{type(error).__name__}: {error}"
    req.finished_reason = FINISH_ABORT(message, HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError")
    scheduler._release_aborted_request(req)  # noqa: SLF001 - as SGLang itself does for a queued request
    scheduler.send_abort_output(_make_abort_req(req, finished_reason=req.finished_reason.to_json()), req)


def nothing_to_run(running_batch: Any) -> Any:
    """Return the plan of an empty round."""
    from sglang.srt.managers.schedule_batch import NextBatchPlan

    return NextBatchPlan(batch_to_run=None, running_batch=running_batch)


def _retract(scheduler: Any, req: Any) -> None:
    from sglang.srt.managers.schedule_batch import retract_all

    if not req.kv.holds_kv:  # the batch was not prepared far enough, or SGLang has retracted it
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


def settle(scheduler: Any, batch: Any) -> None:
    """
    Send the outputs of finished requests, and undo incomplete processing.

    SGLang sends the outputs of a batch at the end of its processing. A request that ended before the failure would
    otherwise be neither sent nor run again. One that failed half-way has tokens without logprobs, and may have ended
    without its KV cache having been freed: it runs again from its last complete token.
    """
    ended = []
    for req in batch.reqs:
        if req.is_retracted:
            continue
        if req.finished() and not req.kv.holds_kv:
            ended.append(req)
            continue
        req.finished_reason = req.finished_len = None
        if req.return_logprob:
            del req.output_ids[len(req.logprob.output_token_logprobs_val) :]
    scheduler.output_streamer.stream_output(ended, batch.return_logprob)
