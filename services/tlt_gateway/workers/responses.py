"""All responses of one worker to this gateway, over one call that is reopened when it breaks."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from typing import Never, TypeAlias

import grpc

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.requests import Failure, HangUp, Start
from tlt_common.errors import AbortedError, HungUpError, TltError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.tracing import call_span
from tlt_common.wire import worker as wire
from tlt_gateway.workers.response_stream import ResponseStream

Call: TypeAlias = grpc.aio.StreamStreamCall[wire.pb.GenerateManyRequest, wire.pb.GenerateManyResponse]
Requests: TypeAlias = "asyncio.Queue[Start | HangUp]"


class Responses:
    """
    Args:
        heard: Called at every message.
    """

    def __init__(self, channel: grpc.aio.Channel, heard: Callable[[], None]) -> None:
        self._stub = wire.Stub(channel)
        self._heard = heard
        self._running: dict[RequestId, ResponseStream] = {}
        self._requests: Requests = asyncio.Queue()
        self._call: Call | None = None
        self._given_up: UnavailableError | None = None

    def generate(self, prompt: Prompt) -> ResponseStream:
        """Return the response to a prompt. Its id must be unique among the worker's running requests."""
        return ResponseStream(lambda stream: self._running_as(prompt, stream))

    def give_up(self, why: str) -> None:
        """End all responses with UnavailableError, because the worker is lost although its connection is open."""
        error = UnavailableError(why)
        if self._call is not None:
            self._given_up = error
            self._call.cancel()
        self._lose_all(error)

    async def run(self) -> Never:
        """Exchange messages with the worker until cancelled."""
        while True:
            first = await self._requests.get()
            requests, error = self._requests, None
            try:
                error = await self._exchange(first, requests)
            finally:
                # Requests that were not sent are lost with the others: their responses have been ended.
                self._requests = asyncio.Queue()
                self._lose_all(error or HungUpError("this gateway stopped following the worker"))

    async def _exchange(self, first: Start | HangUp, requests: Requests) -> UnavailableError:
        """Open a call and deliver its messages; return why it ended."""
        self._given_up = None
        call = self._call = self._stub.GenerateMany(_messages(first, requests))
        try:
            with translated():
                async for message in call:
                    self._heard()
                    self._pass_on(message)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # Cancelling the call and cancelling the task both raise CancelledError; only the task tells which it was.
            if self._given_up is None or task is None or task.cancelling():
                raise
            return self._given_up
        except AbortedError as error:  # not cancelled here: a worker cancels its calls when it shuts down
            return _hung_up(error)
        except UnavailableError as error:
            return error
        except TltError as error:
            return UnavailableError(f"the worker ended the responses: {error.message}")
        finally:
            self._call = None
            call.cancel()
        return HungUpError("the worker ended the responses")

    def _pass_on(self, message: wire.pb.GenerateManyResponse) -> None:
        for part in wire.parts_from_pb(message):
            stream = self._running.get(part.request_id)
            if stream is None:  # its caller has hung up
                continue
            if isinstance(part, Failure):
                stream.fail(_hung_up(part.error) if isinstance(part.error, AbortedError) else part.error)
            else:
                stream.add(part)

    @contextmanager
    def _running_as(self, prompt: Prompt, stream: ResponseStream) -> Iterator[None]:
        with call_span(wire.GENERATE_MANY) as traceparent:
            requests = self._requests
            requests.put_nowait(Start(prompt=prompt, traceparent=traceparent))
            self._running[prompt.request_id] = stream
            try:
                yield
            finally:
                del self._running[prompt.request_id]
                if not stream.is_complete and requests is self._requests:
                    requests.put_nowait(HangUp(request_id=prompt.request_id))

    def _lose_all(self, error: UnavailableError) -> None:
        for stream in self._running.values():
            stream.lose(error)


def _hung_up(error: AbortedError) -> HungUpError:
    return HungUpError(f"the worker ended the response: {error.message}")


async def _messages(first: Start | HangUp, rest: Requests) -> AsyncGenerator[wire.pb.GenerateManyRequest, None]:
    yield wire.request_to_pb(first)
    while True:
        yield wire.request_to_pb(await rest.get())
