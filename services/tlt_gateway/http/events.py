"""Answers as server-sent events, as SGLang and OpenAI stream them."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractContextManager, aclosing
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send

from tlt_common.errors import AbortedError, TltError
from tlt_common.rpc.http.calls import ENDED_WITH, code_of, failed
from tlt_common.rpc.http.failures import content_of, status_of
from tlt_gateway.http.generation import unless_hung_up

HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}


class EventResponse(Response):
    """
    A response that sends at least one answer, then an error if the answers end with one, and [DONE].

    The first answer is awaited before anything is sent: until then, an error is answered with its own status. One task
    produces all answers; it is cancelled when the client hangs up.

    Args:
        answers: The answers.
        running: Context held while they are produced.
    """

    def __init__(
        self, answers: AsyncGenerator[Mapping[str, Any], None], *, running: AbstractContextManager[None]
    ) -> None:
        super().__init__(media_type="text/event-stream")
        self._answers = answers
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """
        Send the response.

        Raises:
            TltError: The first answer is an error, or the client hung up before it.
        """
        started = False

        async def send_all() -> None:
            nonlocal started
            async with aclosing(self._answers) as answers:
                with self._running:
                    first = await anext(answers)
                    started = True
                    await send(HEAD)
                    await _send(send, first)
                    try:
                        async for answer in answers:
                            await _send(send, answer)
                    except TltError as error:
                        await self._send_error(scope, send, error)
                    except Exception as error:  # noqa: BLE001 - the status has been sent, so nobody else can answer it
                        await self._send_error(scope, send, failed(error, service="Http", method=scope["path"]))
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})

        try:
            await unless_hung_up(Request(scope, receive), send_all())
        except AbortedError:
            if not started:
                raise

    async def _send_error(self, scope: Scope, send: Send, error: TltError) -> None:
        scope.setdefault("state", {})[ENDED_WITH] = code_of(status_of(error))
        await _send(send, content_of(error))


async def _send(send: Send, answer: Mapping[str, Any]) -> None:
    event = b"data: " + json.dumps(answer).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": event, "more_body": True})
