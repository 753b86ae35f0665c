"""What becomes true behind sockets or in other processes."""

import asyncio
from collections.abc import Callable


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
