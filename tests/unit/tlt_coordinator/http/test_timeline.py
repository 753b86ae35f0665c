"""Timelines over HTTP."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, publication, running
from tests.unit.tlt_coordinator.serving import client_of
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_common.timeline import MAX_LANES, STATES, TimelineDocument
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator

pytestmark = pytest.mark.looptime

ROLLOUT, DOWN = STATES.index(WorkerState.ROLLOUT), STATES.index(WorkerState.DOWN)

LOAD = GatewayLoad(workers=(WorkerLoad(worker_id=WorkerId("w-0000"), running=by_cap([(64, 1)])),))


@asynccontextmanager
async def fleet(workers: int) -> AsyncIterator[tuple[Coordinator, list[Worker], httpx.AsyncClient]]:
    """A fleet of busy workers that need not report."""
    config = CoordinatorConfig(lending=False, silence_s=1e3)
    async with running(config) as coordinator, client_of(coordinator) as client:
        yield coordinator, [Worker.join(coordinator, f"w-{number:04}", BUSY) for number in range(workers)], client


async def shown(client: httpx.AsyncClient, **query: object) -> TimelineDocument:
    answer = await client.get("/api/v1/timeline", params={name.rstrip("_"): v for name, v in query.items()})  # type: ignore[misc]
    assert answer.status_code == 200, answer.text
    return TimelineDocument.model_validate_json(answer.content)


async def test_a_small_fleet_has_a_lane_for_each_worker() -> None:
    async with fleet(3) as (coordinator, workers, client):
        await workers[0].live(3.8)
        workers[0].say(IDLE)
        await workers[0].live(4.5)
        since_s = coordinator.observer.since_s
        found = await shown(client, columns=8, from_=since_s, to=since_s + 8.0)
        assert (found.kind, found.workers, found.columns) == ("lanes", 3, 8)
        first, *_ = found.rows
        assert first.model_dump() == {
            "label": "w-0000",
            "devices": 1,
            "runs": [(ROLLOUT, 4), (STATES.index(WorkerState.IDLE), 4)],
        }


async def test_lanes_can_be_paged_and_one_worker_chosen() -> None:
    async with fleet(5) as (_, workers, client):
        await workers[0].live(1.0)
        found = await shown(client, rows=2, first=3)
        assert (found.first, [row.label for row in found.rows]) == (3, ["w-0003", "w-0004"])
        assert (await shown(client, first=9)).rows == []
        alone = await shown(client, worker="w-0002")
        assert (alone.workers, [row.label for row in alone.rows]) == (1, ["w-0002"])


async def test_a_large_fleet_has_bands_of_shares() -> None:
    async with fleet(MAX_LANES + 8) as (coordinator, workers, client):
        await workers[0].live(1.0)
        for worker in workers[:65]:
            coordinator.leave(worker.session)
        await workers[-1].live(1.5)
        since_s = coordinator.observer.since_s
        found = await shown(client, rows=8, columns=2, from_=since_s, to=since_s + 2.0)
        assert (found.kind, len(found.rows)) == ("bands", 8)
        row: Any = found.rows[0]
        assert (row.label, row.workers, row.shares) == (
            "w-0000 … w-0064",
            65,
            {ROLLOUT: [100, 0], DOWN: [0, 100]},
        )
        one: Any = (await shown(client, rows=8, first=MAX_LANES)).rows[-1]
        assert (one.label, one.workers) == ("w-0519", 1)


async def test_marks_are_what_happened_within_the_span() -> None:
    async with fleet(1) as (coordinator, (worker,), client):
        await worker.live(1.0)
        coordinator.report_queue("g", 1)
        coordinator.report_load("g", LOAD)
        worker.say(replace(BUSY, policy_version=PolicyVersion(7)))
        await worker.live(1.0)
        await coordinator.publish(publication(0))
        await worker.live(1.0)
        found = await shown(client)
        assert [(mark.kind, mark.label) for mark in found.marks] == [
            ("step", "1"),
            ("update", "7"),
            ("publication", "1"),
        ]
        later = await shown(client, from_=found.marks[1].at_unix_s + 0.01)
        assert [mark.kind for mark in later.marks] == ["publication"]


@pytest.mark.parametrize(
    ("query", "field", "accepted"),
    [
        ({"columns": 4097}, "columns", "1 to 4096"),
        ({"columns": 0}, "columns", "1 to 4096"),
        ({"rows": 513}, "rows", "1 to 512"),
        ({"first": -1}, "first", "how many workers"),
        ({"from": "1"}, "from", "since when there are data"),
        ({"to": "1"}, "to", "since when there are data"),
        ({"rows": [1, 2]}, "rows", "once"),
        ({"zoom": 1}, "query", "from, to, worker, columns, rows, first"),
    ],
)
async def test_a_timeline_that_cannot_be_shown_is_refused_by_field(
    query: dict[str, Any], field: str, accepted: str
) -> None:
    async with fleet(1) as (_, (worker,), client):
        await worker.live(1.0)
        answer = await client.get("/api/v1/timeline", params=query)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, field)
        assert accepted in error["message"]


async def test_a_worker_that_nobody_saw_has_no_timeline() -> None:
    async with fleet(1) as (_, (worker,), client):
        await worker.live(1.0)
        assert (await client.get("/api/v1/timeline", params={"worker": "nobody"})).status_code == 404
