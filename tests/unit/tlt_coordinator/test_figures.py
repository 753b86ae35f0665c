from prometheus_client import REGISTRY

from tlt_common.domain.fleet import DrafterWish, Fleet, WorkerAccount, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, WorkerId
from tlt_coordinator.figures import Figures


def fleet(worker: str, state: WorkerState, seconds: dict[WorkerState, float]) -> Fleet:
    hello = WorkerHello(worker_id=WorkerId(worker), address="host:1", model="m", device="cpu", max_running=8)
    account = WorkerAccount(
        hello=hello, status=WorkerStatus(state=state), seconds=dict.fromkeys(WorkerState, 0.0) | seconds, timeline=()
    )
    return Fleet(
        workers=(account,),
        queued=4,
        drafter=DrafterWish(version=DrafterVersion(7), uri="file:///7"),
        drafters=(),
        lending=True,
        bubble_utilisation=0.75,
    )


def seconds_of(worker: str, state: WorkerState) -> float | None:
    return REGISTRY.get_sample_value("tlt_worker_state_seconds_total", {"worker": worker, "state": state})


def test_counters_of_seconds_follow_the_ledger_exactly() -> None:
    figures = Figures()
    figures.export(fleet("exact", WorkerState.IDLE, {WorkerState.IDLE: 2.0}))
    figures.export(fleet("exact", WorkerState.TRAINING, {WorkerState.IDLE: 3.0, WorkerState.TRAINING: 1.5}))
    figures.export(fleet("exact", WorkerState.TRAINING, {WorkerState.IDLE: 3.0, WorkerState.TRAINING: 4.5}))
    assert seconds_of("exact", WorkerState.IDLE) == 3.0
    assert seconds_of("exact", WorkerState.TRAINING) == 4.5
    assert seconds_of("exact", WorkerState.DOWN) == 0.0


def test_a_worker_is_in_exactly_one_state() -> None:
    figures = Figures()
    for state in WorkerState:
        figures.export(fleet("single", state, {}))
        shown = {
            other: REGISTRY.get_sample_value("tlt_worker_state", {"worker": "single", "state": other})
            for other in WorkerState
        }
        assert shown == {other: float(other is state) for other in WorkerState}


def test_the_fleets_own_figures_are_exported() -> None:
    Figures().export(fleet("any", WorkerState.IDLE, {}))
    assert REGISTRY.get_sample_value("tlt_bubble_utilisation_ratio") == 0.75
    assert REGISTRY.get_sample_value("tlt_fleet_queued_requests") == 4
    assert REGISTRY.get_sample_value("tlt_drafter_version") == 7
