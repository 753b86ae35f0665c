"""The API, version 1: what it answers, and that its description is true."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest

from tests.fakes.tokens import SECRETS, write
from tests.unit.tlt_coordinator.scripted import BUSY, IDLE, Worker, publication, running
from tests.unit.tlt_coordinator.serving import client_of
from tlt_common.domain.fleet import Member, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, WorkerId
from tlt_common.load import GatewayLoad, WorkerLoad, by_cap
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.http.api import reasons_of
from tlt_coordinator.http.viewer_access import access_of
from tlt_coordinator.lending.decision import Standing
from tlt_coordinator.observer import ObservedWorker

API = "/api/v1"
HELLO = WorkerHello(worker_id=WorkerId("w"), address="host:1", model="m", device="cpu", max_running=8)


class Fleet:
    """A coordinator with three workers, and a client that checks every answer against the API's description."""

    def __init__(self, coordinator: Coordinator, client: httpx.AsyncClient, description: dict[str, Any]) -> None:
        self.coordinator = coordinator
        self.description = description
        self._client = client
        self.idle, self.busy, self.gone = (Worker.join(coordinator, name) for name in ("a", "b", "c/1"))
        self.busy.say(replace(BUSY, running=3, accept_length=2.5, policy_version=PolicyVersion(4), arm="chain-3"))
        self.gone.say(replace(IDLE, training_loss=float("nan"), problem="the drafter cannot be read"))
        coordinator.leave(self.gone.session)

    async def get(self, path: str, status: int = 200, **query: object) -> Any:
        answer = await self._client.get(f"{API}/{path}", params={name.rstrip("_"): v for name, v in query.items()})  # type: ignore[misc]
        assert answer.status_code == status, answer.text
        template = "/workers/{worker_id}" if path.startswith("workers/") else f"/{path}"
        operation = self.description["paths"][f"{API}{template}"]["get"]
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        jsonschema.validate(answer.json(), schema | {"components": self.description["components"]})
        return answer.json()

    async def refused(self, path: str, field: str, **query: object) -> str:
        error = (await self.get(path, 400, **query))["error"]
        assert error["param"] == field
        return str(error["message"])


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with running() as coordinator, client_of(coordinator) as client:
        yield Fleet(coordinator, client, (await client.get(f"{API}/openapi.json")).json())


async def test_the_figures_of_the_fleet(fleet: Fleet) -> None:
    fleet.coordinator.report_queue("g", 2, 30.0)
    await fleet.coordinator.exclude([WorkerId("a")], excluded=True)
    found = await fleet.get("fleet")
    assert (found["workers"], found["devices"], found["running"], found["queued"]) == (3, 3, 3, 2)
    assert list(found["by_state"]) == [state.value for state in WorkerState]
    assert {state: count for state, count in found["by_state"].items() if count} == {"rollout": 1, "idle": 1, "down": 1}
    assert (found["paused"], found["excluded"], found["policy_version"], found["accept_length"]) == (True, 1, 4, 2.5)
    assert found["since_unix_s"] <= found["at_unix_s"]


async def test_a_pause_without_a_limit_is_a_pause(fleet: Fleet) -> None:
    fleet.coordinator.report_queue("g", 0, float("inf"))
    found = await fleet.get("fleet")
    assert (found["paused"], found["pause_left_s"]) == (True, None)


async def test_workers_are_listed_by_id_some_at_a_time(fleet: Fleet) -> None:
    first = await fleet.get("workers", count=2)
    assert [row["worker_id"] for row in first["workers"]] == ["a", "b"]
    assert first["next"] == "b"
    rest = await fleet.get("workers", count=2, after=first["next"])
    assert [row["worker_id"] for row in rest["workers"]] == ["c/1"]
    assert rest["next"] is None
    assert (rest["workers"][0]["state"], rest["workers"][0]["standing"]) == ("down", "down")


async def test_workers_may_be_chosen_by_state(fleet: Fleet) -> None:
    for number in range(20):
        Worker.join(fleet.coordinator, f"d-{number:02}")
    found = await fleet.get("workers", state="rollout")
    assert [row["worker_id"] for row in found["workers"]] == ["b"]
    idle = await fleet.get("workers", state="idle", count=21)
    assert (len(idle["workers"]), idle["next"]) == (21, None)
    assert (await fleet.get("workers", state="idle", count=20))["next"] == "d-18"
    assert "accepted: rollout, training" in await fleet.refused("workers", "state", state="asleep")


async def test_a_worker_says_why_it_is_not_lent(fleet: Fleet) -> None:
    found = await fleet.get("workers/b")
    assert found["reasons"] == ["Requests run on it, and rollouts come first."]
    assert (found["address"], found["arm"], found["max_running"]) == ("host:1", "chain-3", 8)
    assert set(found["seconds"]) == {state.value for state in WorkerState}
    gone = await fleet.get("workers/c%2F1")
    assert gone["reasons"] == ["It is unreachable.", "its connection ended; the drafter cannot be read"]
    assert gone["training_loss"] is None


async def test_an_unknown_worker_is_not_found(fleet: Fleet) -> None:
    error = (await fleet.get("workers/nobody", 404))["error"]
    assert "known: a, b, c/1" in error["message"]


async def test_drafters_and_who_has_loaded_them(fleet: Fleet) -> None:
    assert await fleet.get("drafters") == {"newest": 0, "drafters": []}
    await fleet.coordinator.publish(publication(0))
    fleet.busy.say(replace(BUSY, drafter_version=DrafterVersion(1)))
    found = await fleet.get("drafters")
    assert found["newest"] == 1
    assert [(record["version"], record["workers"]) for record in found["drafters"]] == [(1, 1)]


def load(*generated: int, ended: tuple[int, ...] = ()) -> GatewayLoad:
    running = by_cap((1024, tokens) for tokens in generated)
    workers = (WorkerLoad(worker_id=WorkerId("b"), running=running),) if generated else ()
    return GatewayLoad(workers=workers, ended=ended)


async def test_steps_are_learned_and_lengths_counted(fleet: Fleet) -> None:
    fleet.coordinator.report_load("g", load(5, 200))
    (step,) = (await fleet.get("steps"))["steps"]
    assert (step["number"], step["policy_version"], step["ended_unix_s"], step["source"]) == (1, 4, None, "learned")
    fleet.coordinator.report_load("g", load(5, 200, ended=tuple(range(2, 900, 9))))
    found = await fleet.get("lengths")
    assert found["running"] == [
        {"cap": 1024, "from_tokens": 4, "to_tokens": 7, "count": 1},
        {"cap": 1024, "from_tokens": 128, "to_tokens": 255, "count": 1},
    ]
    assert sum(bucket["count"] for bucket in found["finished"]) == 100


@pytest.mark.parametrize(
    ("path", "field", "query", "accepted"),
    [
        ("fleet", "query", {"a": 1}, "none"),
        ("workers", "query", {"cuont": 1}, "after, count, state"),
        ("workers", "count", {"count": 0}, "1 to 512"),
        ("workers", "count", {"count": 513}, "1 to 512"),
        ("workers", "count", {"count": "all"}, "1 to 512"),
        ("workers", "count", {"count": [1, 1]}, "once"),
        ("workers/a", "query", {"x": ""}, "none"),
        ("steps", "from", {"from_": "yesterday"}, "a Unix time"),
        ("steps", "from", {"from_": "nan"}, "a Unix time"),
        ("steps", "from", {"from_": 1.0}, "since when there are data"),
        ("steps", "to", {"to": 9e9}, "at most"),
        ("steps", "to", {"to": "inf"}, "a Unix time"),
    ],
)
async def test_what_is_wrong_with_a_query_is_said_with_what_is_accepted(
    fleet: Fleet, path: str, field: str, query: dict[str, object], accepted: str
) -> None:
    assert accepted in await fleet.refused(path, field, **query)


@pytest.mark.parametrize(
    ("holder", "status"), [("observer", 200), ("operator", 200), ("trainer", 403), ("former", 401), (None, 401)]
)
async def test_data_need_a_token_that_may_look(tmp_path: Path, holder: str | None, status: int) -> None:
    access = access_of(write(tmp_path / "tokens"))
    headers = {"Authorization": f"Bearer {SECRETS[holder]}"} if holder else {}
    async with running() as coordinator, client_of(coordinator, access) as client:
        for path in (f"{API}/fleet", f"{API}/workers", f"{API}/drafters", "/status"):
            assert (await client.get(path, headers=headers)).status_code == status
        wrong = (await client.get(f"{API}/workers?nonsense=1", headers=headers)).status_code
        assert wrong == (400 if status == 200 else status), "who may not look learns nothing of queries"
        assert (await client.get(f"{API}/openapi.json")).status_code == 200


def test_the_description_names_what_is_refused_and_nothing_else(fleet: Fleet) -> None:
    operations = [methods["get"] for methods in fleet.description["paths"].values()]
    assert all(set(found["responses"]) >= {"200", "400", "401", "403", "404"} for found in operations)
    assert not any("422" in found["responses"] for found in operations)
    workers = fleet.description["paths"][f"{API}/workers"]["get"]
    assert {parameter["name"] for parameter in workers["parameters"]} == {"after", "count", "state"}


def test_every_standing_is_told_in_a_sentence() -> None:
    member = Member(hello=HELLO, status=WorkerStatus())
    for standing in Standing:
        (reason,) = reasons_of(ObservedWorker(member=member, since_s=0.0, standing=standing))
        assert reason.endswith(".")
        assert reason.lower() != f"{standing}.", "the word alone explains nothing"
