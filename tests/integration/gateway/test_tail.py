"""In the tail, running requests move onto fewer workers, and nothing is lost or generated twice."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_coordinator import Views, member
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.forecast import history
from tlt_gateway.consolidation import tail_moves, verdict
from tlt_gateway.requests import tail

LONG = SamplingParams(max_new_tokens=60)
RESPONSE = tuple(range(6, 66))
CHEAP = WorkedRounds(
    serial=1,
    arms=tuple(
        ArmWindow(
            arm="off",
            group=group,
            rounds=100,
            accepted_tokens=0,
            produced_tokens=100 * group,
            elapsed_s=100.0,
            median_reward=1.0,
        )
        for group in (1, 2, 4)
    ),
    prefilled_tokens=100_000,
    prefill_s=0.001,
)
"""Rounds of a second that cost the same whatever runs, and prefills that cost nothing."""


@pytest_asyncio.fixture
async def three(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[FakeWorker, ...]]:
    monkeypatch.setattr(tail_moves, "WORTH_S", 0.0)
    monkeypatch.setattr(history, "LEAST_ENDS", 0)  # what is assumed of lengths does
    async with FakeWorker("w0") as first, FakeWorker("w1") as second, FakeWorker("w2") as third:
        for fake in (first, second, third):
            fake.lendable, fake.free_tokens = True, 4
            fake.rounds, fake.kv_room = CHEAP, 10_000
            fake.gate.clear()
        yield first, second, third


@pytest.fixture
def views() -> Views:
    return Views()  # type: ignore[abstract] # implements only what gateways call


def sample(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def moved() -> float:
    return sample("tlt_gateway_consolidated_requests_total")


async def begun(client: Client, fakes: tuple[FakeWorker, ...]) -> asyncio.Task[list[tuple[int, ...]]]:
    """Start one request per worker."""

    async def responses() -> list[tuple[int, ...]]:
        [answers] = await client.batch([[5]], len(fakes), LONG)
        return [answer.token_ids for answer in answers]

    running = asyncio.create_task(responses())
    for fake in fakes:
        await fake.until(1)
    return running


async def packed(client: Client, fakes: tuple[FakeWorker, ...]) -> tuple[FakeWorker, FakeWorker, FakeWorker]:
    """Wait until a request has moved; return the worker that it left, the one it went to, and the one left alone."""
    async with asyncio.timeout(10):
        while sorted(len(fake.running) for fake in fakes) != [0, 1, 2]:
            await client.info()
    empty, alone, full = sorted(fakes, key=lambda fake: len(fake.running))
    return empty, full, alone


async def test_the_last_requests_share_a_worker_but_for_the_last_one(
    start: Start, three: tuple[FakeWorker, ...], views: Views
) -> None:
    before, judged = moved(), sample("tlt_gateway_tail_loss_ratio_count")
    views.lending = True
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3) as client:
        running = await begun(client, three)
        _, full, alone = await packed(client, three)
        assert moved() - before == 1
        full.gate.set()
        alone.gate.set()
        assert await running == [RESPONSE] * 3
    continued = [len(prompt.prefix_token_ids) for prompt in full.prompts]
    assert sorted(continued) == [0, 4], "what was generated before the move is a prefix, and nothing was lost"
    assert sample("tlt_gateway_tail_loss_ratio_count") - judged == 1
    assert sample("tlt_gateway_consolidation_off") == 0


async def test_once_moves_have_turned_out_to_be_a_loss_there_are_no_more(
    start: Start, three: tuple[FakeWorker, ...], views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "LEAST_TAILS", 1)
    monkeypatch.setattr(verdict, "TOLERANCE", -1.0)  # whatever comes is a loss
    views.lending = True
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3) as client:
        running = await begun(client, three)
        await packed(client, three)
        for fake in three:
            fake.gate.set()
        assert await running == [RESPONSE] * 3
        assert sample("tlt_gateway_consolidation_off") == 1
        before = moved()
        for fake in three:
            fake.gate.clear()
        running = await begun(client, three)
        await asyncio.sleep(6 * tail.LOOK_S)
        assert moved() == before
        for fake in three:
            fake.gate.set()
        assert await running == [RESPONSE] * 3


@pytest.mark.parametrize("why", ["not lending", "disabled", "not lendable", "queued", "no forecast", "no paces"])
async def test_nothing_moves_without_a_reason(
    start: Start, three: tuple[FakeWorker, ...], views: Views, why: str
) -> None:
    before = moved()
    views.lending = why != "not lending"
    for fake in three:
        fake.lendable = why != "not lendable"
    views.forecast = why != "no forecast"
    for fake in three:
        if why == "queued":
            fake.max_running = 1
        if why == "no paces":
            fake.rounds = NO_ROUNDS
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
        await asyncio.sleep(6 * tail.LOOK_S)
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
        await packed(client, three)
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
        empty, full, alone = await packed(client, three)
        await empty.kill()
        await full.kill()
        alone.gate.set()
        assert await running == [RESPONSE] * 3
