"""Workers that are silent over open connections."""

import asyncio

import pytest
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tlt_common.client import Client, SamplingParams

TWENTY = SamplingParams(max_new_tokens=20)
Pair = tuple[FakeWorker, FakeWorker]


def hang(fake: FakeWorker, *, after: int = 0) -> None:
    """Let a worker deliver nothing more, like a stopped process."""
    fake.silent, fake.free_tokens = True, after
    fake.gate.clear()


async def workers(client: Client, count: int) -> None:
    async with asyncio.timeout(20):
        while (await client.info()).workers != count:
            pass


async def test_responses_of_a_worker_that_hangs_go_on_elsewhere(start: Start, pair: Pair) -> None:
    async with start(*pair, silence_s=2.0) as client, asyncio.TaskGroup() as group:
        before = REGISTRY.get_sample_value("tlt_gateway_lost_workers_total", {"evidence": "silence"}) or 0
        hang(pair[0], after=3)
        pair[1].token_s = 0.05  # all are assigned before the first is complete
        asked = [group.create_task(client.generate([5], TWENTY)) for _ in range(8)]
        for answer in asked:
            assert (await answer).token_ids == tuple(range(6, 26))
        assert len(pair[0].prompts) == 4
        await workers(client, 1)
        assert REGISTRY.get_sample_value("tlt_gateway_lost_workers_total", {"evidence": "silence"}) == before + 1
        pair[0].silent = False
        pair[0].gate.set()
        await workers(client, 2)  # the same process, over the same connection


async def test_a_worker_whose_reports_are_late_keeps_its_requests_while_they_deliver(start: Start, pair: Pair) -> None:
    pair[0].token_s = 0.2
    async with start(*pair, silence_s=1.5) as client, asyncio.TaskGroup() as group:
        pair[0].silent = True
        asked = [group.create_task(client.generate([5], TWENTY)) for _ in range(2)]
        for answer in asked:
            assert (await answer).token_ids == tuple(range(6, 26))
        assert [len(fake.prompts) for fake in pair] == [1, 1]
        assert (await client.info()).workers == 2


@pytest.mark.parametrize("count", [1, 2])
async def test_a_fleet_that_is_silent_altogether_is_kept(start: Start, pair: Pair, count: int) -> None:
    async with start(*pair[:count], silence_s=0.5, worker_wait_s=0.5) as client, asyncio.TaskGroup() as group:
        for fake in pair:
            hang(fake)
        asked = [group.create_task(client.generate([5], TWENTY)) for _ in range(4)]
        await asyncio.sleep(3)
        assert (await client.info()).workers == count
        for fake in pair:
            fake.gate.set()
        for answer in asked:
            assert (await answer).token_ids == tuple(range(6, 26))
        assert sum(len(fake.prompts) for fake in pair) == 4


async def test_a_gateway_sends_no_more_than_its_share(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with start(worker) as one, start(worker) as other, asyncio.TaskGroup() as group:
        first = group.create_task(one.batch([[5]], 20, TWENTY))
        await worker.until(running=8)
        second = group.create_task(other.batch([[5]], 20, TWENTY))
        assert len(worker.prompts) == 8
        worker.gate.set()
        await first
        await second
        assert len(worker.prompts) == 40
