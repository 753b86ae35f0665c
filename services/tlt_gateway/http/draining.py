"""Graceful shutdown over HTTP: running calls complete, new ones are refused, and every call is answered."""

import asyncio
import json

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tlt_common.errors import DrainingError
from tlt_common.rpc.drain import END_S, Drain
from tlt_common.rpc.http.failures import content_of, status_of
from tlt_gateway.http.bodies.body import DISCARDED_BYTES

HEALTH = frozenset({"/health", "/health_generate", "/liveness"})
"""Not waited for. They fail while the gateway drains, so that load balancers leave it."""
SERVED = frozenset({"/abort_request"})
"""Served until the end, and not waited for: it ends what is waited for."""


class Draining:
    """
    The HTTP application of a gateway, with graceful shutdown.

    Args:
        app: The application.
        drain: Counts the calls.
        retry_after_s: Retry delay sent with refusals.
    """

    def __init__(self, app: ASGIApp, drain: Drain, *, retry_after_s: float) -> None:
        self._app = app
        self._drain = drain
        self._retry_after = str(max(1, round(retry_after_s)))
        self._running: dict[asyncio.Task[None], _Answer] = {}
        self._is_over = False
        drain.when_over(self._end)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        if scope["type"] != "http" or scope["path"] in SERVED:
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, self._drain, self._retry_after)
        if self._drain.begun:
            await _read_out(receive)
            await answer.refuse("this gateway is shutting down; use another one")
        elif scope["path"] in HEALTH:
            await self._app(scope, receive, answer.send)
        else:
            with self._drain.work(scope["path"]):
                await self._run(scope, receive, answer)

    async def _run(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - servers run each call in a task
        self._running[task] = answer
        try:
            await self._app(scope, receive, answer.send)
        except asyncio.CancelledError:
            if not self._is_over:
                raise
            task.uncancel()
            await answer.give_up("this gateway is shutting down and no longer waits for the call")
        finally:
            del self._running[task]

    def _end(self) -> None:
        """End the responses with an error; other running calls are cancelled soon after."""
        self._is_over = True
        asyncio.get_running_loop().call_later(END_S / 2, self._cancel)

    def _cancel(self) -> None:
        for task in self._running:
            task.cancel()


class _Answer:
    """The answer to one call."""

    def __init__(self, send: Send, drain: Drain, retry_after: str) -> None:
        self._send = send
        self._drain = drain
        self._retry_after = retry_after
        self._is_begun = self._is_complete = self._is_stream = False

    async def send(self, message: Message) -> None:
        """Send a message of the application; while the gateway drains, the connection closes after the answer."""
        if message["type"] == "http.response.start":
            self._is_begun = True
            headers = MutableHeaders(scope=message)
            self._is_stream = headers.get("content-type", "").startswith("text/event-stream")
            if self._drain.begun:
                headers["connection"] = "close"
                if message["status"] == status_of(DrainingError("")):
                    headers.setdefault("retry-after", self._retry_after)
        elif message["type"] == "http.response.body":
            self._is_complete = not message.get("more_body", False)
        await self._send(message)

    async def refuse(self, why: str) -> None:
        """Answer with a refusal that tells the client to use another gateway."""
        error = DrainingError(why)
        headers = [(b"content-type", b"application/json")]
        await self.send({"type": "http.response.start", "status": status_of(error), "headers": headers})
        await self.send({"type": "http.response.body", "body": json.dumps(content_of(error)).encode()})

    async def give_up(self, why: str) -> None:
        """End the call with an error. An answer that has begun is cut off, unless it is a stream of events."""
        if not self._is_begun:
            await self.refuse(why)
        elif self._is_stream and not self._is_complete:
            event = b"data: " + json.dumps(content_of(DrainingError(why))).encode() + b"\n\n"
            await self.send({"type": "http.response.body", "body": event})


async def _read_out(receive: Receive) -> None:
    """Read the rest of the body, up to a limit: a client still sending at the close would lose the answer."""
    length = 0
    while length <= DISCARDED_BYTES:
        message = await receive()
        length += len(message.get("body", b""))
        if not message.get("more_body", False):
            return
