"""Requests of one gateway's stream: runs them concurrently and aborts them when their callers hang up."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import request_of
from tlt_common.domain.requests import Failure, HangUp, Part, Start
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.rpc.drain import Drain
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.tracing import call_span, record_response
from tlt_common.wire.worker import GENERATE_MANY
from tlt_worker.requests.kept import Kept, Underway
from tlt_worker.requests.outgoing import PACE_S, Outgoing

log = get_logger(__name__)


class RequestStream:
    """
    Args:
        generate: Runs one request. Cancelling its reader aborts it.
        drain: Counts the requests, and refuses new ones once it has begun.
        kept: Receives the responses if the stream breaks.
        pace_s: Minimum seconds between two messages.
    """

    def __init__(
        self,
        generate: Callable[[Prompt], AsyncGenerator[TokenChunk, None]],
        drain: Drain,
        *,
        pace_s: float = PACE_S,
        kept: Kept | None = None,
    ) -> None:
        self._generate = generate
        self._drain = drain
        self._outgoing = Outgoing(pace_s)
        self._running: dict[RequestId, asyncio.Task[None]] = {}
        self._keys: dict[RequestId, str] = {}
        self._underway = Underway(kept or Kept())
        self._closed = False

    def close(self) -> None:
        """End the stream as soon as no request is running, even if the gateway could send more."""
        self._closed = True
        self._outgoing.wake()

    async def parts(self, requests: AsyncIterator[Start | HangUp | Failure]) -> AsyncGenerator[list[Part], None]:
        """
        Yield the content of each message until `requests` ends and all running requests have finished. Closing the
        iterator aborts running requests.

        Raises:
            InvalidRequestError: The gateway sent an empty message.
        """
        # No task group: the iterator may be closed by another task than the one that reads it.
        listening = asyncio.ensure_future(self._listen(requests))
        listening.add_done_callback(lambda _task: self.close())
        try:
            while self._running or not (self._closed and self._outgoing.is_empty):
                if parts := await self._outgoing.take():
                    yield parts
                if listening.done():
                    listening.result()
        except BaseException:
            self._underway.broke()
            raise
        finally:
            await _cancelled([listening, *self._running.values()])

    async def _listen(self, requests: AsyncIterator[Start | HangUp | Failure]) -> None:
        async for request in requests:
            match request:
                case Start(prompt=prompt):
                    self._start(prompt, request.traceparent)
                case HangUp(request_id=request_id):
                    if task := self._running.get(request_id):
                        self._underway.drop(self._keys.pop(request_id, ""))
                        task.cancel()
                    self._outgoing.forget(request_id)
                case Failure():
                    self._outgoing.put(request)

    def _start(self, prompt: Prompt, traceparent: str) -> None:
        name = prompt.request_id
        if not name or name in self._running:
            error = InvalidRequestError(
                f"prompt.request_id {name!r} is empty or in use; accepted: a unique id per request",
                field="prompt.request_id",
            )
            self._outgoing.put(Failure(request_id=name, error=error))
            return
        if prompt.keep_key:
            self._keys[name] = prompt.keep_key
        task = asyncio.ensure_future(self._respond(prompt, traceparent))
        self._running[name] = task
        task.add_done_callback(lambda _task: self._ended(name))

    def _ended(self, name: RequestId) -> None:
        del self._running[name]
        self._keys.pop(name, None)
        if self._closed and not self._running:
            self._outgoing.wake()

    async def _respond(self, prompt: Prompt, traceparent: str) -> None:
        try:
            with self._drain.work("Generate"), call_span(GENERATE_MANY, parent=traceparent):
                async with aclosing(record_response(self._generate(prompt), request_of(prompt.request_id))) as chunks:
                    async for chunk in chunks:
                        self._underway.add(prompt.keep_key, chunk)
                        self._outgoing.put(chunk)
        except TltError as error:
            self._underway.drop(prompt.keep_key)
            self._outgoing.put(Failure(request_id=prompt.request_id, error=error))
        except Exception as error:  # the interceptor sees only errors of the whole stream
            log.exception("request_failed", request_id=prompt.request_id)
            failure = TltError(f"{type(error).__name__} in WorkerService.GenerateMany; see the service's log")
            self._outgoing.put(Failure(request_id=prompt.request_id, error=failure))


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
