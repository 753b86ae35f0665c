"""At steady load, new requests go where others run already, so that whole workers are left to training."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_coordinator import Views, member
from tests.integration.gateway.test_tail import CHEAP
from tlt_common.client import Client, SamplingParams
from tlt_gateway.requests import packing

LONG = SamplingParams(max_new_tokens=60)


@pytest_asyncio.fixture
async def three() -> AsyncIterator[tuple[FakeWorker, ...]]:
    async with FakeWorker("w0") as first, FakeWorker("w1") as second, FakeWorker("w2") as third:
        for fake in (first, second, third):
            fake.lendable, fake.free_tokens = True, 4
            fake.rounds, fake.kv_room = CHEAP, 10_000
            fake.gate.clear()
        yield first, second, third


async def ran(client: Client, count: int, fakes: tuple[FakeWorker, ...], before: int) -> asyncio.Task[object]:
    """Start so many requests, and wait until they run."""
    running = asyncio.create_task(client.batch([[5]], count, LONG))
    async with asyncio.timeout(10):
        while sum(len(fake.running) for fake in fakes) < before + count:
            await client.info()
    return running


@pytest.mark.parametrize(("lending", "slack", "busy"), [(True, 0.05, 2), (False, 0.05, 3), (True, 0.0, 3)])
async def test_requests_are_packed_while_idle_workers_are_lent(
    start: Start, three: tuple[FakeWorker, ...], lending: bool, slack: float, busy: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "LOOK_S", 0.05)
    views = Views()  # type: ignore[abstract] # implements only what gateways call
    views.lending = lending
    views.show(*map(member, three))
    settings = {"affinity_tokens": None, "tail_running": 0, "pack_slack": slack}
    async with views.peer, start(coordinator=views.peer.address, workers=3, **settings) as client:
        first = await ran(client, 2, three, 0)
        async with asyncio.timeout(10):
            while bool(REGISTRY.get_sample_value("tlt_gateway_packed_requests")) is not (busy == 2):
                await client.info()
        await asyncio.sleep(0.2)
        second = await ran(client, 1, three, 2)
        assert sum(bool(fake.running) for fake in three) == busy
        for fake in three:
            fake.gate.set()
        await asyncio.gather(first, second)
