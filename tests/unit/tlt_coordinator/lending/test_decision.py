"""What operators are told about a worker is what the plan does with it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState, WorkerStatus
from tlt_common.domain.ids import Epoch, WorkerId
from tlt_coordinator.config import LendingPolicy
from tlt_coordinator.lending.decision import Circumstances, Loan, Standing, WorkerView, standing_of
from tlt_coordinator.lending.orders import FleetView, orders
from tlt_coordinator.lending.worklist import Worklist

IDLE = WorkerStatus(state=WorkerState.IDLE, trainer_ready=True)
FREE = WorkerView(worker_id=WorkerId("w0"), status=IDLE)
NOW = Circumstances(lending=True, queued=0, settle_s=0.3)
LOAN = Loan(epoch=Epoch(3), granted_at_s=0.0, renewed_at_s=0.0, taken_up=True)


@pytest.mark.parametrize(
    ("worker", "idle_s", "now", "expected"),
    [
        (None, None, NOW, Standing.DOWN),
        (FREE, 1.0, NOW, Standing.OFFERED),
        (FREE, 0.1, NOW, Standing.SETTLING),
        (replace(FREE, excluded=True), None, NOW, Standing.EXCLUDED),
        (FREE, 1.0, replace(NOW, lending=False), Standing.LENDING_OFF),
        (replace(FREE, excluded=True), None, replace(NOW, lending=False), Standing.EXCLUDED),
        (replace(FREE, status=replace(IDLE, running=1)), None, replace(NOW, lending=False), Standing.LENDING_OFF),
        (FREE, 1.0, replace(NOW, queued=2), Standing.QUEUE),
        (FREE, 1.0, replace(NOW, enough=True), Standing.ENOUGH),
        (replace(FREE, status=replace(IDLE, running=1)), None, NOW, Standing.ROLLOUT),
        (replace(FREE, status=replace(IDLE, state=WorkerState.UPDATING)), None, NOW, Standing.UPDATING),
        (replace(FREE, status=replace(IDLE, trainer_ready=False)), None, NOW, Standing.NO_TRAINER),
        (replace(FREE, status=replace(IDLE, trainer_resting=True)), None, NOW, Standing.RESTING),
        (replace(FREE, status=replace(IDLE, state=WorkerState.TRAINER)), None, NOW, Standing.TRAINER),
        (replace(FREE, status=replace(IDLE, state=WorkerState.TRAINING)), None, NOW, Standing.SWITCHING),
        (replace(FREE, status=replace(IDLE, state=WorkerState.DOWN)), None, NOW, Standing.DOWN),
        (replace(FREE, loan=LOAN), None, NOW, Standing.LENT),
        (replace(FREE, loan=replace(LOAN, taken_up=False)), None, NOW, Standing.SWITCHING),
        (replace(FREE, status=replace(IDLE, epoch=Epoch(2))), None, NOW, Standing.SWITCHING),
    ],
)
def test_the_reason_is_the_first_that_holds(
    worker: WorkerView | None, idle_s: float | None, now: Circumstances, expected: Standing
) -> None:
    assert standing_of(worker, idle_s, now) is expected


@given(
    st.builds(
        WorkerStatus,
        state=st.sampled_from(WorkerState),
        running=st.integers(0, 1),
        epoch=st.sampled_from([Epoch(0), Epoch(3)]),
        trainer_ready=st.booleans(),
        trainer_resting=st.booleans(),
    ),
    st.booleans(),
    st.booleans(),
    st.integers(0, 1),
    st.integers(0, 1),
    st.floats(0, 1),
)
def test_a_worker_is_about_to_be_lent_exactly_if_the_plan_lends_it(
    status: WorkerStatus, excluded: bool, lending: bool, queued: int, most: int, waited_s: float
) -> None:
    worker, policy, worklist = replace(FREE, status=status, excluded=excluded), LendingPolicy(), Worklist()
    worklist.note(worker, 0.0)
    lends = lending and queued == 0
    settled = (worker,) if lends and worklist.settled(waited_s, settle_s=0.3, most=most) else ()
    fleet = FleetView(
        workers=(), settled=settled, queued=queued, lending=lending, last_epoch=Epoch(3), reserved_epoch=Epoch(9)
    )
    now = Circumstances(
        lending=lending,
        queued=queued,
        settle_s=0.3,
        enough=worklist.loans >= most,
    )
    standing = standing_of(worker, worklist.idle_s(worker.worker_id, waited_s), now)
    assert (standing is Standing.OFFERED) == bool(orders(fleet, waited_s, policy)), standing
