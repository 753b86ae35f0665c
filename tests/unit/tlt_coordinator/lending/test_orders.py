from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import Lease, Revocation, WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.decision import Loan, Reason, WorkerView
from tlt_coordinator.lending.orders import FleetView, Grant, Revoke, RoleChange, orders

NOW_S = 100.0
POLICY = LendingPolicy(settle_s=0.5, lease_ttl_s=6.0)
IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
TRAINING = WorkerStatus(state=WorkerState.TRAINING, trainer_ready=True, epoch=Epoch(7))
LOAN = Loan(epoch=Epoch(7), granted_at_s=NOW_S - 1, renewed_at_s=NOW_S - 1, taken_up=True)

times = st.floats(0.0, NOW_S)
epochs = st.integers(0, 9).map(Epoch)
statuses = st.builds(
    WorkerStatus,
    state=st.sampled_from([state for state in WorkerState if state is not WorkerState.DOWN]),
    running=st.sampled_from([0, 0, 1, 5]),
    epoch=epochs,
    trainer_ready=st.booleans(),
)
loans = st.builds(
    Loan, epoch=st.integers(1, 9).map(Epoch), granted_at_s=times, renewed_at_s=times, taken_up=st.booleans()
)
settled = st.integers(0, 3).map(
    lambda count: tuple(WorkerView(worker_id=WorkerId(f"idle{number}"), status=IDLE) for number in range(count))
)
fleets = st.builds(
    FleetView,
    settled=settled,
    workers=st.lists(
        st.builds(
            WorkerView,
            worker_id=st.integers(0, 99).map(lambda number: WorkerId(f"w{number}")),
            status=statuses,
            loan=st.none() | loans,
            revoked=epochs,
        ),
        max_size=8,
        unique_by=lambda worker: worker.worker_id,
    ).map(tuple),
    queued=st.sampled_from([0, 0, 3]),
    lending=st.booleans(),
    last_epoch=st.integers(9, 50).map(Epoch),
    reserved_epoch=st.integers(9, 60).map(Epoch),
)
policies = st.builds(LendingPolicy, lease_ttl_s=st.floats(0.1, 50.0))


def worker(name: str = "w0", status: WorkerStatus = IDLE, *, loan: Loan | None = None) -> WorkerView:
    return WorkerView(worker_id=WorkerId(name), status=status, loan=loan)


def fleet(*workers: WorkerView, settled: tuple[WorkerView, ...] = ()) -> FleetView:
    return FleetView(
        workers=workers,
        settled=settled,
        queued=0,
        lending=True,
        last_epoch=Epoch(7),
        reserved_epoch=Epoch(99),
    )


def grant(epoch: int, name: str = "w0") -> Grant:
    return Grant(worker_id=WorkerId(name), lease=Lease(epoch=Epoch(epoch), ttl_s=POLICY.lease_ttl_s))


def revoke(reason: Reason, epoch: int = 7, name: str = "w0") -> Revoke:
    return Revoke(worker_id=WorkerId(name), revocation=Revocation(epoch=Epoch(epoch)), reason=reason)


def new_grants(fleet: FleetView, changes: tuple[RoleChange, ...]) -> list[Grant]:
    return [change for change in changes if isinstance(change, Grant) and change.lease.epoch > fleet.last_epoch]


@given(fleets, policies)
def test_a_worker_gets_at_most_one_order(fleet: FleetView, policy: LendingPolicy) -> None:
    told = [change.worker_id for change in orders(fleet, NOW_S, policy)]
    assert len(told) == len(set(told))


@given(fleets, policies)
def test_no_epoch_is_given_twice(fleet: FleetView, policy: LendingPolicy) -> None:
    by_id = {worker.worker_id: worker for worker in (*fleet.workers, *fleet.settled)}
    fresh: list[Epoch] = []
    for change in orders(fleet, NOW_S, policy):
        loan = by_id[change.worker_id].loan
        if isinstance(change, Grant) and (loan is None or change.lease.epoch != loan.epoch):
            fresh.append(change.lease.epoch)
    assert fresh == list(range(fleet.last_epoch + 1, fleet.last_epoch + 1 + len(fresh)))


@given(fleets, policies)
def test_only_settled_workers_are_lent(fleet: FleetView, policy: LendingPolicy) -> None:
    lent = [change.worker_id for change in new_grants(fleet, orders(fleet, NOW_S, policy))]
    assert lent == [worker.worker_id for worker in fleet.settled][: len(lent)]


@given(fleets, policies)
def test_when_requests_wait_nothing_new_is_lent_and_recalled_workers_return(
    fleet: FleetView, policy: LendingPolicy
) -> None:
    lent = sorted(worker.worker_id for worker in fleet.workers if worker.loan)
    fleet = replace(fleet, queued=1, recalled=frozenset(lent[:2]))
    changes = orders(fleet, NOW_S, policy)
    assert not new_grants(fleet, changes)
    revoked = {change.worker_id for change in changes if isinstance(change, Revoke)}
    assert fleet.recalled <= revoked


@pytest.mark.parametrize(("queued", "reason"), [(2, Reason.QUEUE), (0, Reason.SURPLUS)])
def test_of_several_leases_only_those_recalled_end(queued: int, reason: Reason) -> None:
    lent = (worker("w0", TRAINING, loan=LOAN), worker("w1", TRAINING, loan=LOAN))
    view = replace(fleet(*lent), queued=queued, recalled=frozenset({WorkerId("w1")}))
    assert orders(view, NOW_S, POLICY) == (revoke(reason, name="w1"),)


@given(fleets, policies)
def test_when_lending_is_off_every_loan_is_revoked_and_none_is_made(fleet: FleetView, policy: LendingPolicy) -> None:
    fleet = replace(fleet, lending=False)
    changes = orders(fleet, NOW_S, policy)
    assert all(isinstance(change, Revoke) for change in changes)
    assert {worker.worker_id for worker in fleet.workers if worker.loan} <= {change.worker_id for change in changes}


@given(fleets, policies)
def test_busy_workers_never_keep_a_loan(fleet: FleetView, policy: LendingPolicy) -> None:
    revoked = {change.worker_id for change in orders(fleet, NOW_S, policy) if isinstance(change, Revoke)}
    for member in fleet.workers:
        if member.loan and (member.status.running or member.status.state is WorkerState.ROLLOUT):
            assert member.worker_id in revoked


def test_idle_workers_are_lent_with_an_epoch_each() -> None:
    assert orders(fleet(settled=(worker("w0"), worker("w1"))), NOW_S, POLICY) == (grant(8, "w0"), grant(9, "w1"))


def test_a_loan_is_renewed_each_third_of_its_life() -> None:
    lent = fleet(worker(status=TRAINING, loan=replace(LOAN, renewed_at_s=NOW_S)))
    assert orders(lent, NOW_S + 1.9, POLICY) == ()
    assert orders(lent, NOW_S + 2.0, POLICY) == (grant(7),)


@pytest.mark.parametrize("state", [WorkerState.SWITCHING, WorkerState.IDLE])
def test_a_loan_goes_on_while_its_holder_switches_or_waits_for_data(state: WorkerState) -> None:
    assert orders(fleet(worker(status=replace(TRAINING, state=state), loan=LOAN)), NOW_S, POLICY) == ()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (replace(TRAINING, state=WorkerState.ROLLOUT, running=1, epoch=Epoch(0)), Reason.PREEMPTED),
        (replace(TRAINING, state=WorkerState.UPDATING), Reason.PREEMPTED),
        (replace(IDLE, epoch=Epoch(0)), Reason.PREEMPTED),
        (replace(TRAINING, trainer_ready=False), Reason.TRAINER_LOST),
    ],
)
def test_a_loan_its_holder_gave_up_is_ended(status: WorkerStatus, reason: Reason) -> None:
    assert orders(fleet(worker(status=status, loan=LOAN)), NOW_S, POLICY) == (revoke(reason),)


def test_a_loan_nobody_took_up_is_ended_when_it_died() -> None:
    loan = Loan(epoch=Epoch(7), granted_at_s=NOW_S, renewed_at_s=NOW_S + 5)
    assert orders(fleet(worker(loan=loan)), NOW_S + 5.9, POLICY) == ()
    assert orders(fleet(worker(loan=loan)), NOW_S + 6.0, POLICY) == (revoke(Reason.IGNORED),)


def test_a_lease_that_is_not_on_the_books_is_revoked_once() -> None:
    stray = worker(status=TRAINING)
    assert orders(fleet(stray), NOW_S, POLICY) == (revoke(Reason.UNKNOWN),)
    assert orders(fleet(replace(stray, revoked=Epoch(7))), NOW_S, POLICY) == ()


def test_no_more_workers_are_lent_than_there_are_epochs_in_reserve() -> None:
    idle = tuple(worker(name) for name in ("w0", "w1", "w2"))
    some = replace(fleet(settled=idle), reserved_epoch=Epoch(9))
    assert orders(some, NOW_S, POLICY) == (grant(8, "w0"), grant(9, "w1"))
    assert orders(replace(some, reserved_epoch=Epoch(7)), NOW_S, POLICY) == ()
