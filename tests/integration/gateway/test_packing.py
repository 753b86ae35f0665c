"""At steady load, new requests go where others run already, so that whole workers are left to training."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_coordinator import Views, member
from tlt_common.client import Client, SamplingParams

LONG = SamplingParams(max_new_tokens=60)


@pytest_asyncio.fixture
async def three() -> AsyncIterator[tuple[FakeWorker, ...]]:
    async with FakeWorker("w0") as first, FakeWorker("w1") as second, FakeWorker("w2") as third:
        for fake in (first, second, third):
            fake.free_tokens = 4
            fake.gate.clear()
        yield first, second, third


async def ran(client: Client, count: int, fakes: tuple[FakeWorker, ...]) -> asyncio.Task[object]:
    """Start so many requests, and wait until they run."""
    running = asyncio.create_task(client.batch([[5]], count, LONG))
    async with asyncio.timeout(10):
        while sum(len(fake.running) for fake in fakes) < count:
            await client.info()
    return running


@pytest.mark.parametrize(("lending", "pack", "busy"), [(True, 3, 1), (True, 2, 2), (False, 3, 3), (True, 0, 3)])
async def test_requests_are_packed_while_idle_workers_are_lent(
    start: Start, three: tuple[FakeWorker, ...], lending: bool, pack: int, busy: int
) -> None:
    views = Views()  # type: ignore[abstract] # implements only what gateways call
    views.lending = lending
    views.show(*map(member, three))
    async with views.peer, start(coordinator=views.peer.address, workers=3, pack_running=pack) as client:
        running = await ran(client, 3, three)
        assert sum(bool(fake.running) for fake in three) == busy
        for fake in three:
            fake.gate.set()
        await running
