"""Health of a suite's parts."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tlt_bench.campaign.suite.suite import WORKERS, Suite
from tlt_common.client.health import require_serving
from tlt_common.errors import TltError
from tlt_common.rpc.channel import connect

CHECK_S = 10.0
POLL_S = 0.25


async def serves(address: str, name: str) -> bool:
    """Return whether a service accepts calls."""
    with suppress(TltError):
        async with connect(address, to=name) as channel:
            await require_serving(channel, "", address=address, timeout_s=CHECK_S)
            return True
    return False


async def workers_serve(suite: Suite) -> bool:
    """Return whether all workers accept calls."""
    addresses = [_address(suite.directory / "addresses" / f"worker-{rank}.json") for rank in range(WORKERS)]
    return all([bool(address) and await serves(address, "worker") for address in addresses])


async def eventually(holds: Callable[[], bool], *, within_s: float) -> bool:
    """Wait until a condition on other processes holds; return False on timeout."""
    with suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110 - the state of other processes is polled
                await asyncio.sleep(POLL_S)
            return True
    return False


def _address(path: Path) -> str:
    with suppress(OSError, ValueError):  # it is starting
        return str(json.loads(path.read_text())["grpc"])
    return ""
