from dataclasses import replace

from prometheus_client import REGISTRY

from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    WorkerAccount,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
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
    assert REGISTRY.get_sample_value("tlt_lending_enabled") == 1


def test_a_drafter_ages_with_the_policy_and_a_new_one_is_young() -> None:
    def shown(version: int, policy: int) -> float | None:
        picture = fleet("any", WorkerState.IDLE, {})
        (account,) = picture.workers
        status = replace(account.status, policy_version=PolicyVersion(policy))
        wish = DrafterWish(version=DrafterVersion(version), uri="file:///d")
        figures.export(replace(picture, workers=(replace(account, status=status),), drafter=wish if version else None))
        return REGISTRY.get_sample_value("tlt_drafter_age_versions")

    figures = Figures()
    assert [shown(0, 3), shown(1, 3), shown(1, 5), shown(1, 12), shown(2, 12), shown(2, 13)] == [0, 0, 2, 9, 0, 1]


def test_it_is_told_when_the_newest_drafter_was_published() -> None:
    record = DrafterRecord(version=DrafterVersion(7), worker_id=WorkerId("w"), at_unix_s=1234.5, held_out_top1=0.5)
    Figures().export(replace(fleet("any", WorkerState.IDLE, {}), drafters=(record,)))
    assert REGISTRY.get_sample_value("tlt_drafter_published_timestamp_seconds") == 1234.5
