from dataclasses import replace

from prometheus_client import REGISTRY

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_coordinator.account.figures import FleetFigures, WorkerStanding
from tlt_coordinator.account.fleet_metrics import FleetMetrics

FIGURES = FleetFigures(
    queued=4,
    drafter=DrafterVersion(7),
    published_at_unix_s=1234.5,
    policy=PolicyVersion(0),
    lending=True,
    bubble_utilisation=0.75,
)


def standing(worker: str, state: WorkerState, seconds: dict[WorkerState, float]) -> WorkerStanding:
    return WorkerStanding(worker_id=WorkerId(worker), state=state, seconds=dict.fromkeys(WorkerState, 0.0) | seconds)


def seconds_of(worker: str, state: WorkerState) -> float | None:
    return REGISTRY.get_sample_value("tlt_worker_state_seconds_total", {"worker": worker, "state": state})


def test_counters_of_seconds_follow_the_ledger_exactly() -> None:
    figures = FleetMetrics()
    figures.export_worker(standing("exact", WorkerState.IDLE, {WorkerState.IDLE: 2.0}))
    figures.export_worker(standing("exact", WorkerState.TRAINING, {WorkerState.IDLE: 3.0, WorkerState.TRAINING: 1.5}))
    figures.export_worker(standing("exact", WorkerState.TRAINING, {WorkerState.IDLE: 3.0, WorkerState.TRAINING: 4.5}))
    assert seconds_of("exact", WorkerState.IDLE) == 3.0
    assert seconds_of("exact", WorkerState.TRAINING) == 4.5
    assert seconds_of("exact", WorkerState.DOWN) == 0.0


def test_counters_do_not_fall_when_seconds_are_rounded() -> None:
    figures = FleetMetrics()
    for seconds in (1.0, 0.99, 1.5):
        figures.export_worker(standing("rounded", WorkerState.IDLE, {WorkerState.IDLE: seconds}))
    assert seconds_of("rounded", WorkerState.IDLE) == 1.5


def test_a_worker_is_in_exactly_one_state() -> None:
    figures = FleetMetrics()
    for state in WorkerState:
        figures.export_worker(standing("single", state, {}))
        shown = {
            other: REGISTRY.get_sample_value("tlt_worker_state", {"worker": "single", "state": other})
            for other in WorkerState
        }
        assert shown == {other: float(other is state) for other in WorkerState}


def test_the_fleets_own_figures_are_exported() -> None:
    FleetMetrics().export(FIGURES)
    assert REGISTRY.get_sample_value("tlt_bubble_utilisation_ratio") == 0.75
    assert REGISTRY.get_sample_value("tlt_fleet_queued_requests") == 4
    assert REGISTRY.get_sample_value("tlt_drafter_version") == 7
    assert REGISTRY.get_sample_value("tlt_lending_enabled") == 1


def test_a_drafter_ages_with_the_policy_and_a_new_one_is_young() -> None:
    def shown(version: int, policy: int) -> float | None:
        figures.export(replace(FIGURES, drafter=DrafterVersion(version), policy=PolicyVersion(policy)))
        return REGISTRY.get_sample_value("tlt_drafter_age_versions")

    figures = FleetMetrics()
    assert [shown(0, 3), shown(1, 3), shown(1, 5), shown(1, 12), shown(2, 12), shown(2, 13)] == [0, 0, 2, 9, 0, 1]


def test_it_is_told_when_the_newest_drafter_was_published() -> None:
    FleetMetrics().export(FIGURES)
    assert REGISTRY.get_sample_value("tlt_drafter_published_timestamp_seconds") == 1234.5
