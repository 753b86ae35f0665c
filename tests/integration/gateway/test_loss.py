import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
import torch

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, gateway
from tlt_common.client import Client, FinishReason, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import AbortedError, EngineError, RequestFailedError, TltError, UnavailableError
from tlt_common.rpc.errors import is_transient
from tlt_gateway.config import GatewayConfig

TWENTY = SamplingParams(max_new_tokens=20, min_new_tokens=10)
Pair = tuple[FakeWorker, FakeWorker]


async def held(fake: FakeWorker, after: int) -> None:
    fake.free_tokens = after
    fake.gate.clear()


def by_load(pair: Pair) -> Pair:
    """The worker that has the request, and the other."""
    return pair if pair[0].running else (pair[1], pair[0])


async def busy(client: Client, fakes: Sequence[FakeWorker]) -> FakeWorker:
    """Wait until one of the workers runs a request; return it."""
    async with asyncio.timeout(10):
        while not (found := [fake for fake in fakes if fake.running]):
            await client.info()
    return found[0]


async def received(stream: AsyncIterator[TokenChunk], count: int) -> list[TokenChunk]:
    """Read the first `count` tokens."""
    chunks: list[TokenChunk] = []
    while sum(len(chunk.token_ids) for chunk in chunks) < count:
        chunks.append(await anext(stream))
    return chunks


async def test_a_lost_worker_is_invisible_and_tokens_are_counted_once(start: Start, pair: Pair) -> None:
    for fake in pair:
        await held(fake, after=7)
    async with start(*pair) as client:
        stream = client.stream([5], TWENTY, request_id="r")
        chunks = await received(stream, 7)
        lost, other = by_load(pair)
        await lost.kill()
        other.gate.set()
        chunks += [chunk async for chunk in stream]
    assert [token for chunk in chunks for token in chunk.token_ids] == list(range(6, 26))
    assert len([p for chunk in chunks for p in chunk.logprobs]) == 20
    assert {chunk.request_id for chunk in chunks} == {"r"}
    assert sum(chunk.finish_reason is not None for chunk in chunks) == 1
    stats = chunks[-1].stats
    assert stats is not None
    assert (stats.prompt_tokens, stats.completion_tokens, stats.rounds) == (1, 20, 20)
    assert stats.worker_id == other.worker_id
    asked = other.prompts[0]
    assert (asked.token_ids, asked.prefix_token_ids) == ((5,), tuple(range(6, 13)))
    assert (asked.sampling.max_new_tokens, asked.sampling.min_new_tokens) == (20, 10)


async def test_a_request_whose_worker_dies_before_the_first_token_starts_over(start: Start, pair: Pair) -> None:
    for fake in pair:
        await held(fake, after=0)
    seeded = SamplingParams(max_new_tokens=4, seed=1, frequency_penalty=0.5)
    async with start(*pair) as client, asyncio.TaskGroup() as group:
        asked = group.create_task(client.generate([5], seeded))
        while not (pair[0].running or pair[1].running):
            await client.info()
        lost, other = by_load(pair)
        other.gate.set()
        await lost.kill()
        assert (await asked).token_ids == (6, 7, 8, 9)
    assert other.prompts[0].sampling == seeded


async def test_with_no_other_worker_the_request_waits_until_the_same_one_is_back(
    start: Start, worker: FakeWorker
) -> None:
    await held(worker, after=3)
    async with start(worker) as client, asyncio.TaskGroup() as group:
        asked = group.create_task(client.generate([5], TWENTY))
        await worker.until(running=1)
        await worker.kill()
        while (await client.info()).workers:
            pass
        worker.gate.set()
        async with worker:
            assert (await asked).token_ids == tuple(range(6, 26))
            assert (await client.info()).workers == 1


async def test_a_request_does_not_wander_for_ever(start: Start, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_gateway.gateway.MAX_MOVES", 2)
    for fake in pair:
        fake.generate_error = AbortedError("shutting down")
    async with start(*pair) as client:
        with pytest.raises(UnavailableError, match="after the request had moved 2 times"):
            await client.generate([5], TWENTY)


async def test_a_request_of_which_two_engines_died_is_not_moved_to_a_third(start: Start, pair: Pair) -> None:
    async with FakeWorker("w2") as third:
        for fake in pair:
            fake.generate_error = EngineError("the engine died: SGLang's process 7 exited")
        async with start(*pair, third) as client:
            with pytest.raises(RequestFailedError, match="two engines died while they ran the request") as raised:
                await client.generate([5], TWENTY)
            assert "process 7 exited" in raised.value.message
            assert not third.prompts


async def test_a_gateway_that_stops_blames_no_request_for_the_workers_it_leaves(pair: Pair) -> None:
    """Its client continues the response elsewhere, which it would not do if the request were said to end engines."""
    for fake in pair:
        await held(fake, after=0)
    config = GatewayConfig(workers=tuple(fake.address for fake in pair))
    async with AsyncExitStack() as clients:
        async with gateway(config) as address:
            client = await clients.enter_async_context(Client(address, patience_s=0))
            await client.wait_ready(10, workers=2)
            asked = asyncio.create_task(client.generate([5], TWENTY))
            await busy(client, pair)
        with pytest.raises(TltError) as raised:
            await asked
    assert is_transient(raised.value)


async def test_a_worker_that_was_leaving_did_not_die_of_its_requests(start: Start, pair: Pair) -> None:
    """As when pods are ended one after the other, and killed before their requests are finished."""
    async with FakeWorker("w2") as third:
        fakes = [*pair, third]
        for fake in fakes:
            await held(fake, after=0)
        async with start(*fakes) as client:
            asked = asyncio.create_task(client.generate([5], TWENTY))
            while len(fakes) > 1:
                leaving = await busy(client, fakes)
                fakes.remove(leaving)
                await leaving.drain.complete(0)
                leaving.watchers.changed()
                async with asyncio.timeout(10):
                    while (await client.info()).workers > len(fakes):
                        pass
                await leaving.kill()
            fakes[0].gate.set()
            assert (await asked).token_ids == tuple(range(6, 26))


async def test_an_error_of_one_request_neither_moves_it_nor_costs_a_worker(start: Start, pair: Pair) -> None:
    for fake in pair:
        fake.generate_error = RequestFailedError("IndexError: index 1000000000 is out of bounds")
    async with start(*pair) as client:
        with pytest.raises(RequestFailedError, match="out of bounds"):
            await client.generate([5], TWENTY)
        assert (await client.info()).workers == 2


async def test_a_lost_worker_gets_nothing_until_it_answers_again(start: Start, pair: Pair) -> None:
    first, second = pair
    async with start(*pair) as client:
        await first.kill()
        responses = await client.batch([[5]], 6, TWENTY)
        assert all(response.finish_reason is FinishReason.LENGTH for response in responses[0])
        async with first:
            await client.wait_ready(10, workers=2)
            before = len(first.prompts)
            await client.batch([[5]], 6, TWENTY)
            assert len(first.prompts) > before
    assert second.prompts


async def test_a_request_for_version_0_whose_worker_dies_continues_after_an_update(start: Start, pair: Pair) -> None:
    for fake in pair:
        await held(fake, 3)
    async with start(*pair) as client, asyncio.timeout(20):
        stream = client.stream([1], TWENTY, policy_version=0)
        chunks = await received(stream, 3)
        first, second = by_load(pair)
        await first.kill()
        await client.publish_weights(2, {"w": torch.ones(1)})
        second.gate.set()
        chunks += [chunk async for chunk in stream]
        assert sum(len(chunk.token_ids) for chunk in chunks) == 20
        assert len((await client.generate([1], TWENTY)).token_ids) == 20
