import json
from dataclasses import replace

import httpx
import pytest

from tlt_common.domain.fleet import (
    DrafterRecord,
    DrafterWish,
    Fleet,
    StateChange,
    WorkerAccount,
    WorkerHello,
    WorkerState,
    WorkerStatus,
)
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_coordinator.http.status import accept_length, app, fleet_json

HELLO = WorkerHello(
    worker_id=WorkerId("w0"), address="host:1", model="tiny", device="cpu", max_running=8, pod="fleet-worker-x7"
)
ACCOUNT = WorkerAccount(
    hello=HELLO,
    status=WorkerStatus(state=WorkerState.TRAINING, epoch=Epoch(7), training_loss=float("nan")),
    seconds=dict.fromkeys(WorkerState, 1.5),
    timeline=(StateChange(state=WorkerState.TRAINING, at_unix_s=12.0),),
)
DRAFTER = DrafterWish(version=DrafterVersion(2), uri="file:///2")
RECORD = DrafterRecord(version=DrafterVersion(2), worker_id=WorkerId("w0"), at_unix_s=1.0, held_out_top1=0.5)
FLEET = Fleet(workers=(ACCOUNT,), queued=3, drafter=DRAFTER, drafters=(RECORD,), lending=True, bubble_utilisation=0.75)


async def test_the_status_is_json_of_the_fleet_as_it_is_now() -> None:
    fleets = iter([FLEET, replace(FLEET, queued=0)])

    async def fleet(max_changes: int | None) -> Fleet:
        return next(fleets)

    transport = httpx.ASGITransport(app(fleet))
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator") as client:
        assert (await client.get("/status")).json() == fleet_json(FLEET)
        assert (await client.get("/status")).json()["queued"] == 0
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/nothing")).status_code == 404


def test_a_worker_shows_its_state_lease_seconds_and_timeline() -> None:
    fleet = json.loads(json.dumps(fleet_json(FLEET), allow_nan=False))
    (worker,) = fleet["workers"]
    assert (worker["worker_id"], worker["state"], worker["epoch"]) == ("w0", "training", 7)
    assert worker["seconds"] == {state.value: 1.5 for state in WorkerState}
    assert worker["timeline"] == [{"state": "training", "at_unix_s": 12.0}]
    assert worker["pod"] == "fleet-worker-x7"
    assert worker["training_loss"] is None
    assert fleet["drafter"] == {"version": 2, "uri": "file:///2"}
    assert fleet["bubble_utilisation"] == 0.75


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([], None),
        ([(WorkerState.IDLE, 4.0)], None),
        ([(WorkerState.ROLLOUT, 0.0)], None),
        ([(WorkerState.ROLLOUT, 2.0), (WorkerState.ROLLOUT, 4.0), (WorkerState.TRAINING, 9.0)], 3.0),
    ],
)
def test_the_fleets_accept_length_is_that_of_workers_that_decode(
    statuses: list[tuple[WorkerState, float]], expected: float | None
) -> None:
    accounts = tuple(
        replace(ACCOUNT, status=WorkerStatus(state=state, accept_length=length)) for state, length in statuses
    )
    assert accept_length(replace(FLEET, workers=accounts)) == expected
