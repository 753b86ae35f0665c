"""Answers streamed as they are produced."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from tlt_common.errors import TltError
from tlt_common.rpc.http.calls import ENDED_WITH, code_of
from tlt_common.rpc.http.failures import status_of

STALLED_S = 30.0
"""Seconds after which a caller that does not take what it is sent is let go."""


class StreamedAnswer(Response):
    """
    Sends parts until they end, the caller hangs up, or it does not take them. An error before the first part is
    answered with its own status; a later one ends the answer.

    Args:
        parts: At least one.
        media_type: Of the answer.
        headers: Further ones.
    """

    def __init__(
        self, parts: AsyncGenerator[bytes, None], media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(media_type=media_type, headers=headers)
        del self.headers["content-length"]
        self._parts = parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Send the answer.

        Raises:
            TltError: There is no first part.
        """
        async with aclosing(self._parts) as parts:
            first = await anext(parts)
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(_send_all(scope, send, first, parts))
                hung_up = tasks.create_task(_hung_up(receive))
                await asyncio.wait({sending, hung_up}, return_when=asyncio.FIRST_COMPLETED)
                sending.cancel()
                hung_up.cancel()


async def _send_all(scope: Scope, send: Send, first: bytes, parts: AsyncGenerator[bytes, None]) -> None:
    try:
        await _send(send, first)
        async for part in parts:
            await _send(send, part)
    except TltError as error:
        scope.setdefault("state", {})[ENDED_WITH] = code_of(status_of(error))
    except TimeoutError:
        scope.setdefault("state", {})[ENDED_WITH] = "DEADLINE_EXCEEDED"
        return
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, part: bytes) -> None:
    """
    Raises:
        TimeoutError: The caller does not take it.
    """
    async with asyncio.timeout(STALLED_S):
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
