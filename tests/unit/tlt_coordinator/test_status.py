import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, publication, running
from tests.unit.tlt_coordinator.serving import client_of
from tlt_common.domain.fleet import WorkerState
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.status import written

pytestmark = pytest.mark.looptime


async def status_of(coordinator: Coordinator, *, max_changes: int = 0) -> dict[str, Any]:
    """Return the document, checked to be strict JSON."""

    def refused(constant: str) -> None:
        raise AssertionError(constant)

    text = b"".join([part async for part in written(coordinator.observer, max_changes)])
    found: dict[str, Any] = json.loads(text, parse_constant=refused)
    return found


async def test_a_worker_shows_its_state_lease_and_seconds_and_its_timeline_if_asked() -> None:
    async with running() as coordinator:
        worker = Worker.join(coordinator, status=replace(IDLE, training_loss=float("nan")))
        await worker.live(1.0)
        await coordinator.publish(publication(0))
        fleet = await status_of(coordinator, max_changes=9)
        (shown,) = fleet["workers"]
        assert (shown["worker_id"], shown["state"], shown["epoch"]) == ("w0", "training", worker.status.epoch)
        assert set(shown["seconds"]) == {state.value for state in WorkerState}
        assert [change["state"] for change in shown["timeline"]] == ["down", "idle", "training"]
        assert shown["training_loss"] is None
        assert fleet["drafter"] == {"version": 1, "uri": "file:///1"}
        (unasked,) = (await status_of(coordinator))["workers"]
        assert unasked["timeline"] == []


async def test_many_workers_are_written_in_pieces_and_are_all_there() -> None:
    async with running() as coordinator:
        for number in range(100):
            Worker.join(coordinator, f"w{number:02}")
        parts = [part async for part in written(coordinator.observer, 0)]
        assert len(parts) > 3
        assert [worker["worker_id"] for worker in json.loads(b"".join(parts))["workers"]] == [
            f"w{number:02}" for number in range(100)
        ]


async def test_the_fleets_accept_length_is_that_of_workers_that_decode() -> None:
    async with running() as coordinator:
        workers = [Worker.join(coordinator, f"w{number}") for number in range(4)]
        assert (await status_of(coordinator))["accept_length"] is None
        for worker, length in zip(workers, (2.0, 4.0, 0.0), strict=False):
            worker.say(replace(BUSY, accept_length=length))
        workers[3].say(replace(IDLE, accept_length=9.0))
        assert (await status_of(coordinator))["accept_length"] == 3.0
        workers[0].say(IDLE)
        coordinator.leave(workers[1].session)
        assert (await status_of(coordinator))["accept_length"] is None


async def test_a_fleet_without_workers_is_a_document_too() -> None:
    async with running() as coordinator, client_of(coordinator) as client:
        answer = await client.get("/status")
        assert answer.status_code == httpx.codes.OK
        assert answer.json()["workers"] == []
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/nothing")).status_code == httpx.codes.NOT_FOUND
