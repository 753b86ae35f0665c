"""max_staleness: responses end when the weights have moved on too far."""

import asyncio
from contextlib import AsyncExitStack

import pytest
import torch
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import Client, FinishReason, SamplingParams

EIGHT = SamplingParams(max_new_tokens=8)
WEIGHTS = {"w": torch.ones(1)}


def paused(worker: FakeWorker, after: int) -> None:
    worker.free_tokens = after
    worker.gate.clear()


def ended(outcome: str) -> float:
    return REGISTRY.get_sample_value("tlt_gateway_requests_total", {"outcome": outcome}) or 0.0


async def publish(client: Client, version: int) -> None:
    await client.publish_weights(version, WEIGHTS)


@pytest.mark.parametrize(("allowed", "tokens", "reason"), [(0, 3, "abort"), (1, 8, "length"), (None, 8, "length")])
async def test_a_response_ends_when_an_update_makes_it_stale(
    start: Start, worker: FakeWorker, allowed: int | None, tokens: int, reason: str
) -> None:
    paused(worker, 3)
    before = ended("stale")
    async with start(worker) as client, asyncio.TaskGroup() as group:
        stream = client.stream([5], EIGHT, max_staleness=allowed)
        found = [await anext(stream)]
        while sum(len(chunk.token_ids) for chunk in found) < 3:
            found.append(await anext(stream))
        await publish(client, 1)
        group.create_task(worker.until(running=0))
        worker.gate.set()
        found += [chunk async for chunk in stream]
    assert [version for chunk in found for version in chunk.policy_versions] == [0] * 3 + [1] * (tokens - 3)
    assert found[-1].finish_reason == FinishReason(reason)
    assert found[-1].stats is not None
    assert found[-1].stats.completion_tokens == tokens
    assert ended("stale") - before == (reason == "abort")


async def test_a_request_that_waits_is_as_old_as_its_first_token(start: Start, worker: FakeWorker) -> None:
    worker.max_running = 1
    paused(worker, 0)
    async with start(worker) as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.generate([5], EIGHT))
        await worker.until(running=1)
        queued = group.create_task(client.generate([5], EIGHT, max_staleness=0))
        await publish(client, 1)
        worker.gate.set()
    assert (await first).policy_versions == (1,) * 8  # paused before its first token
    assert (await queued).policy_versions == (1,) * 8
    assert (await queued).finish_reason is FinishReason.LENGTH


async def test_another_gateway_continues_counting(start: Start, worker: FakeWorker) -> None:
    paused(worker, 3)
    async with AsyncExitStack() as second, AsyncExitStack() as clients, asyncio.TaskGroup() as group:
        async with start(worker) as first:
            other = await second.enter_async_context(start(worker))
            client = await clients.enter_async_context(Client([first.endpoint, other.endpoint]))
            batch = group.create_task(client.batch([[5]], 1, EIGHT, max_staleness=0))
            single = group.create_task(client.generate([5], EIGHT, max_staleness=0))
            await worker.until(running=2)
            await asyncio.wait_for(_three_tokens(first), 10)
            await publish(first, 1)
        worker.gate.set()
    for response in ((await batch)[0][0], await single):
        assert response.policy_versions == (0,) * len(response.token_ids)
        assert response.finish_reason is FinishReason.ABORT


async def _three_tokens(client: Client) -> None:
    """Wait until a later response has three tokens, and so the earlier ones."""
    count = 0
    async for chunk in client.stream([5], EIGHT):
        count += len(chunk.token_ids)
        if count == 3:
            return


async def test_a_prefix_says_how_old_it_is(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        await publish(client, 4)
        options = {"prefix_ids": [6, 7], "max_staleness": 1}
        old = await client.generate([5], EIGHT, begun_version=2, **options)
        recent = await client.generate([5], EIGHT, begun_version=3, **options)
    assert (old.token_ids, old.finish_reason) == ((), FinishReason.ABORT)
    assert (len(recent.token_ids), recent.finish_reason) == (6, FinishReason.LENGTH)
