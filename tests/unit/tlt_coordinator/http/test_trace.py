"""Traces for Perfetto."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import httpx
import jsonschema
import pytest

from tests.unit.tlt_coordinator.scripted import BUSY, Worker, publication, running
from tests.unit.tlt_coordinator.serving import client_of
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.http import trace

pytestmark = pytest.mark.looptime

CONFIG = CoordinatorConfig(silence_s=1e3)
LOAD = GatewayLoad(workers=(WorkerLoad(worker_id=WorkerId("w0"), running=by_cap([(64, 1)])),))


async def traced(client: httpx.AsyncClient, **query: object) -> list[dict[str, Any]]:
    """Return the events of a trace that is as the API says."""
    answer = await client.get("/api/v1/trace", params=query)  # type: ignore[arg-type]
    assert answer.status_code == 200, answer.text
    described = (await client.get("/api/v1/openapi.json")).json()
    operation = described["paths"]["/api/v1/trace"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer.json(), operation | {"components": described["components"]})
    events: list[dict[str, Any]] = answer.json()["traceEvents"]
    return events


def names(events: list[dict[str, Any]]) -> dict[int, str]:
    return {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}


def threads(events: list[dict[str, Any]], process: int) -> dict[str, list[dict[str, Any]]]:
    """Return the events of a process by the names of its threads."""
    mine = [event for event in events if event["pid"] == process]
    known = {event["tid"]: event["args"]["name"] for event in mine if event["name"] == "thread_name"}
    return {name: [e for e in mine if e["ph"] != "M" and e["tid"] == tid] for tid, name in known.items()}


async def test_a_trace_has_states_and_leases_of_workers_and_what_the_fleet_did() -> None:
    async with running(CONFIG) as coordinator, client_of(coordinator) as client:
        worker, other = Worker.join(coordinator), Worker.join(coordinator, "w1", BUSY)
        await worker.live(3.0)
        lease = worker.status.epoch
        worker.say(BUSY)
        coordinator.report_queue("g", 0)
        coordinator.report_load("g", LOAD)
        await worker.live(2.0)
        coordinator.report_load("g", GatewayLoad(ended=(9,)))
        other.say(replace(BUSY, policy_version=PolicyVersion(3)))
        await coordinator.publish(publication(0))
        await worker.live(1.0)
        events = await traced(client)
        assert names(events) == {1: "fleet", 2: "w0", 3: "w1"}
        fleet, mine = threads(events, 1), threads(events, 2)
        assert list(fleet) == ["steps", "publications", "updates"]
        assert [(event["name"], event["args"]["tokens"]) for event in fleet["steps"]] == [("step 1", 9)]
        assert [event["name"] for event in fleet["publications"] + fleet["updates"]] == ["drafter 1", "policy 3"]
        assert {"idle", "training", "rollout"} <= {event["name"] for event in mine["state"]}
        assert mine["lease"][0]["name"] == f"lease {lease}"
        for before, after in pairwise(mine["state"]):
            assert before["ts"] + before["dur"] == pytest.approx(after["ts"], abs=2)
        assert names(await traced(client, worker="w1")) == {1: "fleet", 2: "w1"}


async def test_a_span_with_too_many_events_is_refused_and_a_part_of_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_EVENTS", 100)
    async with running(CONFIG) as coordinator, client_of(coordinator) as client:
        worker = Worker.join(coordinator)
        for number in range(200):
            worker.say((BUSY, replace(BUSY, state=WorkerState.UPDATING))[number % 2])
            await worker.live(0.1)
        answer = await client.get("/api/v1/trace")
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "from")
        assert "accepted: 100 at most" in error["message"]
        assert await traced(client, **{"from": coordinator.observer.now() - 1.0})


async def test_an_unknown_worker_has_no_trace() -> None:
    async with running(CONFIG) as coordinator, client_of(coordinator) as client:
        await Worker.join(coordinator).live(1.0)
        assert (await client.get("/api/v1/trace", params={"worker": "nobody"})).status_code == 404
