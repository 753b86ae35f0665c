"""A gateway's end of a worker's responses, for tests of workers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from tlt_gateway.workers.responses import Responses


@asynccontextmanager
async def responses(channel: grpc.aio.Channel) -> AsyncIterator[Responses]:
    """Exchange messages with a worker within the block."""
    of_worker = Responses(channel, lambda: None)
    exchanging = asyncio.ensure_future(of_worker.run())
    try:
        yield of_worker
    finally:
        exchanging.cancel()
        await asyncio.wait({exchanging})
