import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest
import pytest_asyncio

from tests.fakes.worker import FakeWorker
from tlt_common.client import Client
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live

Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def gateway(config: GatewayConfig, *, within_s: float = 10) -> AsyncIterator[str]:
    """Run a gateway on a real socket; yield its address once it serves, within so many seconds."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(live(config, on_serving=address.set_result))
        async with asyncio.timeout(within_s):
            await address
        yield address.result()
        serving.cancel()


@asynccontextmanager
async def served(config: GatewayConfig, *, workers: int) -> AsyncIterator[Client]:
    """Run a gateway; yield a client, which continues nothing, once `workers` accept requests."""
    async with gateway(config) as address, Client(address, patience_s=0) as client:
        if workers:
            await client.wait_ready(10, workers=workers)
        yield client


async def queued(client: Client, count: int) -> None:
    """Wait until `count` requests are queued at the gateway."""
    async with asyncio.timeout(10):
        while (await client.info()).queued != count:
            pass


@pytest.fixture
def start() -> Start:
    """Start a gateway in front of fake workers."""

    def starting(
        *fakes: FakeWorker, workers: int | None = None, **changes: object
    ) -> AbstractAsyncContextManager[Client]:
        config = GatewayConfig(workers=tuple(fake.address for fake in fakes))
        ready = len(fakes) if workers is None else workers
        return served(GatewayConfig.model_validate(config.model_dump() | changes), workers=ready)

    return starting


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker("w0") as fake:
        yield fake


@pytest_asyncio.fixture
async def pair() -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    async with FakeWorker("w0") as first, FakeWorker("w1") as second:
        yield first, second
