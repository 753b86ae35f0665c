"""In the tail, running requests move onto few workers, and nothing is lost or generated twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_coordinator import Views, member
from tlt_common.client import Client, SamplingParams
from tlt_gateway.requests import tail

LONG = SamplingParams(max_new_tokens=60)
RESPONSE = tuple(range(6, 66))


@pytest_asyncio.fixture
async def three(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[FakeWorker, ...]]:
    for name in ("SETTLE_S", "WORTH_S"):
        monkeypatch.setattr(tail, name, 0.0)
    async with FakeWorker("w0") as first, FakeWorker("w1") as second, FakeWorker("w2") as third:
        for fake in (first, second, third):
            fake.lendable, fake.free_tokens = True, 4
            fake.gate.clear()
        yield first, second, third


@pytest.fixture
def views() -> Views:
    return Views()  # type: ignore[abstract] # implements only what gateways call


def moved() -> float:
    return REGISTRY.get_sample_value("tlt_gateway_consolidated_requests_total") or 0.0


async def begun(client: Client, fakes: tuple[FakeWorker, ...]) -> asyncio.Task[list[tuple[int, ...]]]:
    """Start one request per worker."""

    async def responses() -> list[tuple[int, ...]]:
        [answers] = await client.batch([[5]], len(fakes), LONG)
        return [answer.token_ids for answer in answers]

    running = asyncio.create_task(responses())
    for fake in fakes:
        await fake.until(1)
    return running


async def test_the_last_requests_share_a_worker(start: Start, three: tuple[FakeWorker, ...], views: Views) -> None:
    before = moved()
    views.lending = True
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3) as client:
        running = await begun(client, three)
        await three[2].until(3)  # the busiest by name
        assert not three[0].running
        assert not three[1].running
        assert moved() - before == 2
        three[2].gate.set()
        assert await running == [RESPONSE] * 3
    continued = [len(prompt.prefix_token_ids) for prompt in three[2].prompts]
    assert sorted(continued) == [0, 4, 4], "what was generated before the move is a prefix, and nothing was lost"


@pytest.mark.parametrize("why", ["not lending", "disabled", "not lendable", "queued"])
async def test_nothing_moves_without_a_reason(
    start: Start, three: tuple[FakeWorker, ...], views: Views, why: str
) -> None:
    before = moved()
    views.lending = why != "not lending"
    for fake in three:
        fake.lendable = why != "not lendable"
    if why == "queued":
        for fake in three:
            fake.max_running = 1
    views.show(*map(member, three))
    limit = 0 if why == "disabled" else 4
    async with (
        views.peer,
        start(coordinator=views.peer.address, workers=3, tail_running=limit) as client,
        asyncio.TaskGroup() as tasks,
    ):
        running = await begun(client, three)
        if why == "queued":
            tasks.create_task(client.batch([[5]], 1, LONG))
        await asyncio.sleep(4 * tail.LOOK_S)
        assert moved() == before
        for fake in three:
            fake.gate.set()
        assert await running == [RESPONSE] * 3


async def test_a_request_that_is_aborted_while_it_moves_is_aborted(
    start: Start, three: tuple[FakeWorker, ...], views: Views
) -> None:
    views.lending = True
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3) as client:
        running = await begun(client, three)
        await three[2].until(3)
        await client.abort(everything=True)
        responses = await running
        assert all(tokens == RESPONSE[: len(tokens)] for tokens in responses)
        assert max(map(len, responses)) < len(RESPONSE)
        for fake in three:
            await fake.until(0)


async def test_a_worker_that_dies_while_its_requests_move_loses_none(
    start: Start, three: tuple[FakeWorker, ...], views: Views
) -> None:
    views.lending = True
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3) as client:
        running = await begun(client, three)
        await three[2].until(3)
        await three[0].kill()
        await three[1].kill()
        three[2].gate.set()
        assert await running == [RESPONSE] * 3
