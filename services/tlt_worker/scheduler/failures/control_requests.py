"""
Answers SGLang's control requests whose handler raises an exception.

| request | reaction |
| --- | --- |
| abort | completed here: the requests it names end |
| pause | completed here: all requests are retracted |
| continue | completed here |
| update of weights from disk | refused; the worker loads the served weights again while generation is paused |
| update of the drafter | refused; the target verifies whatever a half-loaded drafter drafts |
| any other | the process ends: the state that SGLang changes is not known here |

Generation requests have their own containment (`intake`).

Written against SGLang 0.5.23: `Scheduler.init_request_dispatcher`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tlt_worker.scheduler.failures.between_rounds import live_requests, retract_everything
from tlt_worker.scheduler.failures.recovery import UnrecoverableError, recovery

DRAFTER = "draft"
"""SGLang's selector of the draft model."""


def contain_control(original: Callable[..., Any], self: Any) -> None:
    """Wrap `Scheduler.init_request_dispatcher`."""
    original(self)
    self._request_dispatcher = ContainedDispatcher(self, self._request_dispatcher)


@dataclass(frozen=True, slots=True)
class ContainedDispatcher:
    """Replaces SGLang's dispatcher of requests to their handlers."""

    scheduler: Any
    dispatch: Callable[[Any], Any]

    def __call__(self, request: Any) -> Any:
        """Return the answer to a request, or None if it has none."""
        from sglang.srt.managers import io_struct

        scheduler, started, waiting = self.scheduler, list[Any](), list[Any]()
        if isinstance(request, io_struct.AbortReq | io_struct.PauseGenerationReqInput):
            # What raises may have removed a request already.
            started = live_requests(scheduler, scheduler.running_batch, scheduler.last_batch)
            waiting = list(scheduler.waiting_queue)
        try:
            answer = self.dispatch(request)
        except Exception as error:  # noqa: BLE001 - see `recovery`
            with recovery(scheduler, error, type(request).__name__):
                answer = self._complete(request, error, started, waiting)
        if hasattr(answer, "success") and not scheduler.draft_worker.ranks.all_did(answer.success) and answer.success:
            answer.success, answer.message = False, "it failed on another rank"
        return answer

    def _complete(self, request: Any, error: Exception, started: list[Any], waiting: list[Any]) -> Any:
        from sglang.srt.managers import io_struct

        scheduler, why = self.scheduler, f"{type(error).__name__}: {error}"
        match request:
            case io_struct.AbortReq():
                _abort(scheduler, request, started, waiting)
                return None
            case io_struct.PauseGenerationReqInput():
                scheduler._engine_paused = True  # noqa: SLF001 - as `pause_generation` begins
                retract_everything(scheduler, [*started, *waiting], [], error)
                return None
            case io_struct.ContinueGenerationReqInput():
                scheduler._engine_paused, scheduler._pause_started_at = False, None  # noqa: SLF001 - as it ends
                return None
            case io_struct.UpdateWeightFromDiskReqInput():
                return io_struct.UpdateWeightFromDiskReqOutput(success=False, message=why)
            case io_struct.BeginWeightUpdateReqInput(selector=selector) if selector == DRAFTER:
                return io_struct.BeginWeightUpdateReqOutput(success=False, message=why)
            case io_struct.UpdateWeightsFromTensorReqInput(selector=selector) if selector == DRAFTER:
                return io_struct.UpdateWeightsFromTensorReqOutput(success=False, message=why)
            case io_struct.EndWeightUpdateReqInput() if _is_of_drafter(scheduler.weight_updater):
                scheduler.weight_updater._session = None  # noqa: SLF001 - else SGLang refuses the next update
                return io_struct.EndWeightUpdateReqOutput(success=False, message=why)
        raise UnrecoverableError(f"{type(request).__name__}: {why}") from error


def _is_of_drafter(updater: Any) -> bool:
    session = updater._session  # noqa: SLF001 - SGLang offers no other way
    return session is not None and session.selector == DRAFTER


def _abort(scheduler: Any, request: Any, started: list[Any], waiting: list[Any]) -> None:
    """End the requests that an abort names. An answer that was already sent is ignored by its receiver."""
    from sglang.srt.managers.schedule_batch import FINISH_ABORT
    from sglang.srt.managers.scheduler import _make_abort_req

    named = {req for req in [*started, *waiting] if request.abort_all or req.rid.startswith(request.rid)}
    scheduler.waiting_queue = [req for req in scheduler.waiting_queue if req not in named]
    for req in waiting:
        if req in named:
            scheduler.send_abort_output(_make_abort_req(req, finished_reason=request.finished_reason), req)
    for req in started:
        if req in named and not req.finished():
            req.to_finish = FINISH_ABORT()
