"""A scheduler process whose rounds fail for some requests: the entry point that a scene gives SGLang."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

LAUNCH, PREPARE, PROCESS = "fails-at-launch", "fails-in-preparation", "fails-in-processing"
FILTER, DECODE = "fails-in-filtering", "fails-before-decoding"
"""A request whose id contains one of these fails its batch at that moment."""
ABORT = "fails-when-aborted"
"""A request whose abort fails half-way."""
ONE_RANK = "fails-on-one-rank"
"""A request that fails at its launch on rank 1 only."""
VERSION = 13
"""A version of weights whose update fails once they are loaded."""


def run_scheduler(*args: Any, **kw: Any) -> None:
    """Run SGLang's scheduler with faults."""
    from sglang.srt.distributed.parallel_state import get_tp_group
    from sglang.srt.managers.schedule_batch import ScheduleBatch
    from sglang.srt.managers.scheduler import run_scheduler_process
    from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor

    from tlt_worker.scheduler import ranks
    from tlt_worker.scheduler.sampling.settings import RoundSettings

    settings_of, prepare = RoundSettings.of, ScheduleBatch.prepare_for_extend
    filter_batch, prepare_decode = ScheduleBatch.filter_batch, ScheduleBatch.prepare_for_decode
    finished = SchedulerBatchResultProcessor._handle_finish_state_updated_req

    @contextmanager
    def failing_settings(self: Any, batch: Any) -> Iterator[None]:
        with settings_of(self, batch):
            if not batch.forward_mode.is_extend():
                _fail(LAUNCH, batch.reqs)
                if get_tp_group().rank_in_group == 1:
                    _fail(ONE_RANK, batch.reqs)
            yield

    def failing_prepare(self: Any) -> None:
        _fail(PREPARE, self.reqs)
        prepare(self)

    def failing_finish(self: Any, req: Any, *rest: Any, **kw: Any) -> Any:
        if len(req.output_ids) > 3:
            _fail(PROCESS, [req])
        return finished(self, req, *rest, **kw)

    def failing_filter(self: Any, *args: Any, **kw: Any) -> None:
        hostile = [req for req in self.reqs if FILTER in req.rid]
        filter_batch(self, *args, **kw)
        if hostile:
            self.reqs = []  # half-way: its requests are in no batch
        _fail(FILTER, hostile)

    def failing_decode(self: Any) -> None:
        prepare_decode(self)
        _fail(DECODE, self.reqs)

    ranks.FAILURE_S = 5.0  # read once, at the start
    ScheduleBatch.filter_batch = failing_filter
    ScheduleBatch.prepare_for_decode = failing_decode
    _break_control()
    RoundSettings.of = failing_settings  # type: ignore[method-assign]
    ScheduleBatch.prepare_for_extend = failing_prepare
    SchedulerBatchResultProcessor._handle_finish_state_updated_req = failing_finish
    run_scheduler_process(*args, **kw)


def _break_control() -> None:
    """Make handlers of control requests fail."""
    from sglang.srt.constrained.grammar_manager import GrammarManager
    from sglang.srt.managers.scheduler_components.weight_updater import SchedulerWeightUpdaterManager

    record_version = SchedulerWeightUpdaterManager.record_weight_version_after_update

    def failing_abort(self: Any, request: Any) -> None:
        del self
        if ABORT in request.rid:
            raise LookupError(f"{ABORT}: {request.rid}")

    def failing_version(self: Any, version: str | None) -> None:
        if version == str(VERSION):
            raise LookupError(f"version {version} was not recorded")
        record_version(self, version)

    GrammarManager.abort_requests = failing_abort
    SchedulerWeightUpdaterManager.record_weight_version_after_update = failing_version


def _fail(when: str, reqs: Any) -> None:
    for req in reqs:
        if when in req.rid:
            raise IndexError(f"{when}: of request {req.rid[:-1]}")
