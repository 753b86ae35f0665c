"""The messages of a call that streams."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from tlt_common.rpc.errors import translated


@asynccontextmanager
async def received(call: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """
    Yield the iterator over a call's messages; cancel the call at the end of the block.

    The iterator is closed there too: gRPC's refers to itself, so interceptors, which end their spans with it, would
    otherwise wait for the garbage collector.

    Raises:
        TltError: The call failed.
    """
    messages = cast("AsyncGenerator[Any, None]", aiter(call))
    try:
        with translated():
            yield messages
    finally:
        call.cancel()
        await messages.aclose()
