"""An engine goes on after an exception only if its state can be trusted."""

from types import SimpleNamespace
from typing import Any

import pytest

from tlt_worker.scheduler.failures.between_rounds import plan_contained
from tlt_worker.scheduler.failures.recovery import UnrecoverableError, recovery, skipping

CAUSE = IndexError("the cause")


def scheduler(*, stages: int = 1, together: bool = True, told: list[Any] | None = None) -> Any:
    def failed_together(what: list[Any]) -> bool:
        if told is not None:
            told.append(what)
        return together

    return SimpleNamespace(
        server_args=SimpleNamespace(pp_size=stages),
        device="cpu",
        forward_ct=7,
        draft_worker=SimpleNamespace(ranks=SimpleNamespace(failed_together=failed_together)),
        running_batch=SimpleNamespace(reqs=[]),
        chunked_req=None,
        waiting_queue=[],
    )


def test_ranks_compare_the_step_the_round_and_the_requests() -> None:
    told: list[Any] = []
    with recovery(scheduler(told=told), CAUSE, "run", ["a", "b"]):
        pass
    assert told == [["run", 7, "a", "b"]]


@pytest.mark.parametrize(
    ("broken", "message"),
    [(scheduler(stages=2), "pipeline"), (scheduler(together=False), "not all ranks failed")],
)
def test_nothing_is_restored_where_ranks_may_differ(broken: Any, message: str) -> None:
    with pytest.raises(UnrecoverableError, match=message), recovery(broken, CAUSE, "run"):
        pytest.fail("entered")


def test_a_state_that_cannot_be_restored_ends_the_engine_and_names_both_errors() -> None:
    with (
        pytest.raises(UnrecoverableError, match=r"the cause.*its KV cache") as raised,
        recovery(scheduler(), CAUSE, "run"),
    ):
        raise ValueError("its KV cache")
    assert raised.value.__cause__ is CAUSE


def test_an_outer_step_does_not_restore_what_an_inner_one_gave_up() -> None:
    told: list[Any] = []
    given_up = UnrecoverableError("given up")
    with pytest.raises(UnrecoverableError, match="given up"), recovery(scheduler(told=told), given_up, "plan"):
        pytest.fail("entered")
    assert told == []


def test_a_plan_that_fails_without_requests_is_not_tried_for_ever() -> None:
    def failing(*_: Any, **__: Any) -> Any:
        raise CAUSE

    idle = scheduler()
    with pytest.raises(IndexError, match="the cause"):
        plan_contained(failing, idle, idle.running_batch, None)


def test_a_message_that_cannot_be_handled_is_skipped() -> None:
    with skipping("message_not_handled", kind="Message"):
        raise CAUSE
