"""Which workers a plan looks at: the right ones, and never all."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import FREE, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.by_age import ByAge, ChangeLog
from tlt_coordinator.lending.decision import Loan, WorkerView
from tlt_coordinator.lending.worklist import STEP_WORKERS, Worklist

POLICY = LendingPolicy(settle_s=0.5, lease_ttl_s=6.0)
IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
TRAINING = WorkerStatus(state=WorkerState.TRAINING, trainer_ready=True, epoch=Epoch(7))


def worker(name: str = "w0", status: WorkerStatus = IDLE, loan: Loan | None = None) -> WorkerView:
    return WorkerView(worker_id=WorkerId(name), status=status, loan=loan)


def lent(name: str, at_s: float, *, taken_up: bool = True) -> WorkerView:
    loan = Loan(epoch=Epoch(7), granted_at_s=at_s, renewed_at_s=at_s, taken_up=taken_up)
    return worker(name, TRAINING if taken_up else IDLE, loan)


def settled(worklist: Worklist, now_s: float, policy: LendingPolicy = POLICY) -> list[str]:
    return [str(worker_id) for worker_id in worklist.settled(now_s, settle_s=policy.settle_s or 0.0, most=99)]


def test_a_worker_that_ran_dry_just_now_is_left_to_settle() -> None:
    worklist = Worklist()
    worklist.note(worker(), 10.0)
    worklist.note(worker(), 10.4)  # a repeated report changes nothing
    assert settled(worklist, 10.4) == []
    assert settled(worklist, 10.5) == ["w0"]


@pytest.mark.parametrize("state", [state for state in WorkerState if state not in FREE])
def test_a_worker_whose_devices_are_used_is_not_lent(state: WorkerState) -> None:
    worklist = Worklist()
    worklist.note(worker(), 0.0)
    worklist.note(worker(status=replace(IDLE, state=state)), 1.0)
    assert settled(worklist, 99.0) == []


@pytest.mark.parametrize(
    "changes", [{"running": 1}, {"epoch": Epoch(3)}, {"trainer_ready": False}, {"trainer_resting": True}]
)
def test_a_worker_that_is_not_free_or_has_no_trainer_is_not_lent(changes: dict[str, object]) -> None:
    worklist = Worklist()
    worklist.note(worker(status=replace(IDLE, **changes)), 0.0)  # type: ignore[arg-type]
    assert settled(worklist, 99.0) == []


def test_those_idle_longest_are_lent() -> None:
    worklist = Worklist()
    for number in range(4):
        worklist.note(worker(f"w{number}"), float(number))
    worklist.note(worker("untrained", replace(IDLE, trainer_ready=False)), 4.0)
    assert settled(worklist, 99.0) == ["w0", "w1", "w2", "w3"]


def test_a_loan_is_looked_at_when_it_changed_when_it_is_due_and_when_all_end() -> None:
    worklist = Worklist()
    worklist.note(lent("w0", 10.0), 10.0)
    assert worklist.take(10.0, POLICY, ends=False) == ["w0"]
    assert worklist.take(11.9, POLICY, ends=False) == []
    assert worklist.take(12.0, POLICY, ends=False) == ["w0"]
    assert worklist.take(11.0, POLICY, ends=True) == ["w0"]
    worklist.note(worker("w0"), 12.0)
    assert worklist.take(99.0, POLICY, ends=True) == ["w0"]  # it changed
    assert worklist.take(99.0, POLICY, ends=True) == []


def test_a_loan_nobody_took_up_is_looked_at_when_it_died_although_it_was_renewed() -> None:
    worklist = Worklist()
    view = lent("w0", 10.0, taken_up=False)
    worklist.note(view, 10.0)
    assert view.loan is not None
    worklist.note(replace(view, loan=replace(view.loan, renewed_at_s=15.0)), 15.0)
    worklist.take(15.0, POLICY, ends=False)
    assert worklist.take(15.9, POLICY, ends=False) == []
    assert worklist.take(16.0, POLICY, ends=False) == ["w0"]


def test_a_worker_that_left_is_forgotten() -> None:
    worklist = Worklist()
    for view in (worker("a"), lent("b", 0.0, taken_up=False)):
        worklist.note(view, 0.0)
        worklist.forget(view.worker_id)
    assert worklist.take(99.0, POLICY, ends=True) == []
    assert settled(worklist, 99.0) == []


def test_a_wave_is_taken_in_parts() -> None:
    worklist = Worklist()
    for number in range(3 * STEP_WORKERS + 1):
        worklist.note(worker(f"w{number}"), 0.0)
    taken: list[WorkerId] = []
    while worklist.has_changes:
        part = worklist.take(0.0, POLICY, ends=False)
        assert len(part) <= STEP_WORKERS
        taken += part
    assert taken == [f"w{number}" for number in range(3 * STEP_WORKERS + 1)]
    assert len(worklist.settled(9.0, settle_s=0.5, most=99)) == STEP_WORKERS


names = st.sampled_from([WorkerId(f"w{number}") for number in range(5)])


@given(st.lists(st.tuples(names, st.integers(0, 5), st.booleans())), st.integers(0, 20))
def test_by_age_finds_what_a_scan_would(events: list[tuple[WorkerId, int, bool]], age_s: int) -> None:
    ages, expected, now_s = ByAge(), dict[WorkerId, float](), 0.0
    for worker_id, passed_s, leaves in events:
        now_s += passed_s
        expected.pop(worker_id, None)
        if leaves:
            ages.drop(worker_id)
        else:
            ages.mark(worker_id, now_s)
            expected[worker_id] = now_s
    assert ages.at_least(age_s, now_s, 99) == [name for name, at_s in expected.items() if now_s - at_s >= age_s]
    assert ages.oldest(2) == list(expected)[:2]


@given(st.lists(st.lists(names)))
def test_a_change_log_returns_each_change_once_to_each_reader(rounds: list[list[WorkerId]]) -> None:
    log, seen = ChangeLog(), 0
    for changed in rounds:
        for worker_id in changed:
            log.mark(worker_id)
        seen, found = log.since(seen)
        assert sorted(found) == sorted(set(changed))
    assert set(log.since(0)[1]) == {worker_id for changed in rounds for worker_id in changed}


def test_the_least_valuable_leases_are_those_not_reported_then_those_that_gain_least() -> None:
    worklist, values = Worklist(), {"w0": 0.5, "w1": 0.1, "w2": 0.3}
    for name in values:
        worklist.note(lent(name, 1.0), 1.0)
    worklist.note(lent("w9", 2.0, taken_up=False), 2.0)
    assert [worklist.least(count, lambda name: values.get(name, 9.0)) for count in (0, 1, 3)] == [
        [],
        ["w9"],
        ["w9", "w1", "w2"],
    ]
    assert len(worklist.least(99, lambda name: values.get(name, 9.0))) == worklist.loans == 4


def test_no_more_are_lent_than_pay() -> None:
    worklist = Worklist()
    worklist.note(lent("w0", 1.0), 1.0)
    for number in range(1, 5):
        worklist.note(worker(f"w{number}"), 1.0)
    assert worklist.settled(9.0, settle_s=0.5, most=3) == ["w1", "w2"]
    assert worklist.settled(9.0, settle_s=0.5, most=1) == []
