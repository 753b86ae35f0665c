"""SGLang's control requests are answered even if their handler fails. No engine is started."""

from types import SimpleNamespace
from typing import Any

import pytest

from tlt_worker.scheduler.failures.control_requests import ContainedDispatcher
from tlt_worker.scheduler.failures.recovery import UnrecoverableError
from tlt_worker.scheduler.ranks import Ranks

io_struct = pytest.importorskip("sglang.srt.managers.io_struct")
pytestmark = pytest.mark.engine


def dispatcher(handler: Any, *, session: str | None = None, others_did: bool = True) -> ContainedDispatcher:
    """Return a dispatcher to one handler; `session` is the selector of an open update."""
    ranks = Ranks(rank=0, size=1, group=None)
    opened = SimpleNamespace(selector=session) if session else None
    scheduler = SimpleNamespace(
        server_args=SimpleNamespace(pp_size=1),
        device="cpu",
        forward_ct=7,
        draft_worker=SimpleNamespace(
            ranks=SimpleNamespace(
                failed_together=ranks.failed_together, all_did=lambda done: ranks.all_did(done) and others_did
            )
        ),
        running_batch=SimpleNamespace(reqs=[]),
        last_batch=None,
        chunked_req=None,
        waiting_queue=[],
        weight_updater=SimpleNamespace(_session=opened),
        _engine_paused=True,
        _pause_started_at=3.0,
    )
    return ContainedDispatcher(scheduler, handler)


def failing(request: Any) -> Any:
    raise OSError(f"of {type(request).__name__}")


def of_tensors(selector: str) -> Any:
    return io_struct.UpdateWeightsFromTensorReqInput(serialized_named_tensors=[b""], selector=selector)


@pytest.mark.parametrize(
    "request_",
    [
        io_struct.UpdateWeightFromDiskReqInput(model_path="x"),
        io_struct.BeginWeightUpdateReqInput(selector="draft"),
        of_tensors("draft"),
        io_struct.EndWeightUpdateReqInput(),
    ],
    ids=lambda one: type(one).__name__,
)
def test_an_update_that_fails_is_refused_with_the_reason(request_: Any) -> None:
    contained = dispatcher(failing, session="draft")
    answer = contained(request_)
    assert type(answer).__name__ == type(request_).__name__.replace("Input", "Output")
    assert (answer.success, answer.message) == (False, f"OSError: of {type(request_).__name__}")


def test_an_update_of_the_drafter_that_cannot_be_ended_does_not_bar_the_next() -> None:
    contained = dispatcher(failing, session="draft")
    contained(io_struct.EndWeightUpdateReqInput())
    assert contained.scheduler.weight_updater._session is None


def test_generation_continues_even_if_the_handler_fails() -> None:
    contained = dispatcher(failing)
    assert contained(io_struct.ContinueGenerationReqInput()) is None
    assert contained.scheduler._engine_paused is False


@pytest.mark.parametrize(
    ("request_", "session"),
    [
        (of_tensors("target"), "target"),
        (io_struct.EndWeightUpdateReqInput(), "target"),
        (io_struct.FlushCacheReqInput(), None),
        (io_struct.ReleaseMemoryOccupationReqInput(), None),
    ],
)
def test_a_state_that_is_not_known_ends_the_engine(request_: Any, session: str | None) -> None:
    with pytest.raises(UnrecoverableError, match=f"OSError: of {type(request_).__name__}"):
        dispatcher(failing, session=session)(request_)


def test_weights_that_another_rank_did_not_load_are_refused() -> None:
    def done(_: Any) -> Any:
        return io_struct.UpdateWeightFromDiskReqOutput(success=True, message="")

    assert dispatcher(done)(io_struct.UpdateWeightFromDiskReqInput(model_path="x")).success
    answer = dispatcher(done, others_did=False)(io_struct.UpdateWeightFromDiskReqInput(model_path="x"))
    assert (answer.success, answer.message) == (False, "it failed on another rank")
