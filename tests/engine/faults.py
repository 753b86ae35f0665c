"""A scheduler process whose rounds fail for some requests: the entry point that a scene gives SGLang."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LAUNCH, PREPARE, PROCESS = "fails-at-launch", "fails-in-preparation", "fails-in-processing"
"""A request whose id contains one of these fails its batch at that moment."""


def run_scheduler(*args: Any, **kw: Any) -> None:
    """Run SGLang's scheduler with faults."""
    from sglang.srt.managers import overlap_utils
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.scheduler import run_scheduler_process
    from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor

    from tlt_worker.scheduler.sampling.settings import RoundSettings

    settings_of, prepare = RoundSettings.of, ScheduleBatch.prepare_for_extend
    finished = SchedulerBatchResultProcessor._handle_finish_state_updated_req

    @contextmanager
    def failing_settings(self: Any, batch: Any) -> Iterator[None]:
        with settings_of(self, batch):
            if not batch.forward_mode.is_extend():
                _fail(LAUNCH, batch.reqs)
            yield

    def failing_prepare(self: Any) -> None:
        _fail(PREPARE, self.reqs)
        prepare(self)

    def failing_finish(self: Any, req: Any, *rest: Any, **kw: Any) -> Any:
        if len(req.output_ids) > 3:
            _fail(PROCESS, [req])
        return finished(self, req, *rest, **kw)

    overlap_utils.gather_spec_extras = gather_rows
    RoundSettings.of = failing_settings  # type: ignore[method-assign]
    ScheduleBatch.prepare_for_extend = failing_prepare
    SchedulerBatchResultProcessor._handle_finish_state_updated_req = failing_finish
    run_scheduler_process(*args, **kw)


def gather_rows(rows: Any, *buffers: Any) -> tuple[Any, ...]:
    """Replace a Triton kernel of the overlapped loop."""
    return tuple(None if buffer is None else buffer[rows] for buffer in buffers)


def _fail(when: str, reqs: Any) -> None:
    for req in reqs:
        if when in req.rid:
            raise IndexError(f"{when}: of request {req.rid[:-1]}")
