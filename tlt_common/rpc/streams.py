"""Streaming calls: messages that may fail while they are sent, and iterators that are closed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

from tlt_common.errors import TltError
from tlt_common.rpc.errors import translated

Message = TypeVar("Message")
Answer = TypeVar("Answer")


async def answered(
    call: Callable[[AsyncIterator[Message]], Awaitable[Answer]], messages: AsyncIterator[Message]
) -> Answer:
    """
    Send messages and return the answer.

    If the messages fail, gRPC either cancels the call and raises CancelledError, as if the caller's task had been
    cancelled, or the server takes their end for the end of the request and answers.

    Raises:
        TltError: The error of the messages, whatever the server answered.
    """
    failures: list[TltError] = []

    async def sent() -> AsyncIterator[Message]:
        try:
            async for message in messages:
                yield message
        except TltError as error:
            failures.append(error)
            raise

    try:
        answer = await call(sent())
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if failures and task is not None and not task.cancelling():
            raise failures[0] from None
        raise
    if failures:
        raise failures[0]
    return answer


@asynccontextmanager
async def received(call: Any) -> AsyncIterator[AsyncIterator[Any]]:
    """
    Yield the iterator over a call's messages; cancel the call at the end of the block.

    The iterator is closed, too: gRPC's iterator refers to itself, so interceptors, which end their spans with it, would
    otherwise wait for garbage collection.

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
