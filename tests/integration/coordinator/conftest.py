import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

from tlt_coordinator.config import CoordinatorConfig, LendingPolicy
from tlt_coordinator.main import Addresses, serve

Start: TypeAlias = Callable[..., AbstractAsyncContextManager[Addresses]]


@asynccontextmanager
async def served(config: CoordinatorConfig) -> AsyncIterator[Addresses]:
    """Run a coordinator on real sockets; yield its addresses."""
    addresses: asyncio.Future[Addresses] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(serve(config, on_serving=addresses.set_result))
        async with asyncio.timeout(10):
            await addresses
        yield addresses.result()
        serving.cancel()


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a coordinator that lends workers immediately; a restarted one restores its state."""
    config = CoordinatorConfig(state_dir=tmp_path / "state", spot=LendingPolicy(settle_s=0.0))
    return lambda **changes: served(config.model_copy(update=changes))
