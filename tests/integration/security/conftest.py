import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from tests.fakes.authority import Authority
from tests.fakes.worker import FakeWorker
from tlt_common.rpc.server import internal
from tlt_worker.main import CALLERS


@asynccontextmanager
async def alive(serve: Callable[[Callable[[Any], None]], Awaitable[object]]) -> AsyncIterator[Any]:
    """Run a service within the context; yield the value it reports once it serves."""
    said: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(_run(serve(said.set_result)))
        async with asyncio.timeout(30):
            await said
        yield said.result()
        task.cancel()


async def _run(service: Awaitable[object]) -> None:
    await service


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "own")


@pytest.fixture
def stranger(tmp_path: Path) -> Authority:
    """A certificate authority that no service trusts."""
    return Authority(tmp_path / "other")


@pytest_asyncio.fixture
async def worker(authority: Authority) -> AsyncIterator[FakeWorker]:
    """A worker that requires client certificates, as real ones do with TLS."""
    async with FakeWorker(security=internal(authority.issue("worker"), CALLERS)) as fake:
        yield fake


@pytest.fixture
def refused() -> Callable[[str, str], float]:
    """Return a function that counts a service's refused calls, by reason, since the test began."""

    def count(service: str, reason: str) -> float:
        return REGISTRY.get_sample_value("tlt_rpc_refused_total", {"service": service, "reason": reason}) or 0.0

    before = {
        (sample.labels["service"], sample.labels["reason"]): sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "tlt_rpc_refused_total"
    }
    return lambda service, reason: count(service, reason) - before.get((service, reason), 0.0)
