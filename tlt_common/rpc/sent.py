"""Calls whose requests are streams of messages that may fail while they are sent."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from tlt_common.errors import TltError

Message = TypeVar("Message")
Answer = TypeVar("Answer")


async def answered(
    call: Callable[[AsyncIterator[Message]], Awaitable[Answer]], messages: AsyncIterator[Message]
) -> Answer:
    """
    Send messages and return the answer.

    If the messages fail, gRPC cancels the call and raises CancelledError, as if the caller's task had been cancelled;
    or the server takes their end for the end of the request, and answers.

    Raises:
        TltError: That of the messages, whatever the server answered.
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
