"""Calls with any bytes as messages, and the judgment of their outcome."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import grpc

from tests.fuzz.target import HarmError
from tlt_common.rpc.channel import OPTIONS
from tlt_common.rpc.errors import FIELD_KEY

LIMIT_S = 60.0
"""Seconds after which a call that has not ended is compared with a control call."""
CONTROL_S = 60.0
"""Time limit of the control call; this machine may be busy with other work."""
IDLE_S = 0.004
"""Seconds without a response after which a stream that never ends is cancelled."""

NEED_A_FIELD = frozenset(
    {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION}
)
"""Refusals of the request itself."""
DEFECTS = frozenset(
    {
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.DATA_LOSS,
    }
)

STATUS_LOST = "Internal error from Core"
"""How grpc.aio's client reports that the server had ended the call before a message was written; it then forgets the
status that the server sent."""


class Ending(StrEnum):
    """How the caller ends its side."""

    HALF_CLOSE = "half-close"
    CANCEL = "cancel"
    """The call is cancelled after the messages."""
    NEVER = "never"
    """The caller sends nothing more, and cancels once the server is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A method of a service."""

    path: str
    """/package.Service/Method."""
    client_streams: bool
    server_streams: bool
    is_endless: bool = False
    """Whether a valid call ends only when the caller ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as bytes."""

    method: Method
    messages: tuple[bytes, ...]
    """Exactly one unless the client streams."""
    ending: Ending = Ending.HALF_CLOSE


class Caller:
    """Makes calls over one connection, one after the other."""

    def __init__(self, address: str, control: Call) -> None:
        """
        Args:
            address: host:port of the server.
            control: A call that must always succeed.
        """
        self._channel: Any = grpc.aio.insecure_channel(address, options=list(OPTIONS))
        self._control = control

    async def aclose(self) -> None:
        """Close the connection."""
        await self._channel.close()

    async def try_(self, call: Call) -> None:
        """
        Make a call.

        Raises:
            HarmError: Its outcome is not one that a client can act on.
        """
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._made(call)
        except TimeoutError:
            await self.require_control()
            raise HarmError(f"{call.method.path} did not end within {LIMIT_S:g} s; a control call did") from None
        except grpc.aio.AioRpcError as error:
            _judge(call.method, error)

    async def require_control(self) -> None:
        """
        Make the control call.

        Raises:
            HarmError: It failed or did not end.
        """
        try:
            async with asyncio.timeout(CONTROL_S):
                await self._made(self._control)
        except TimeoutError:
            raise HarmError(f"the server is stuck: a control call did not end within {CONTROL_S:g} s") from None
        except grpc.aio.AioRpcError as error:
            raise HarmError(f"a control call failed: {error.code().name}: {error.details()}") from None

    async def _made(self, call: Call) -> None:
        started = self._started(call)
        try:
            if call.method.client_streams:
                await self._send(started, call)
            if call.ending is Ending.CANCEL:
                return
            if call.method.server_streams:
                is_open = call.method.is_endless or call.ending is Ending.NEVER
                await _drain(started, IDLE_S if is_open else None)
            elif call.ending is not Ending.NEVER:
                await started
        finally:
            started.cancel()

    def _started(self, call: Call) -> Any:
        method = call.method
        if method.client_streams:
            make = self._channel.stream_stream if method.server_streams else self._channel.stream_unary
            return make(method.path)()
        make_one = self._channel.unary_stream if method.server_streams else self._channel.unary_unary
        return make_one(method.path)(call.messages[0])

    async def _send(self, started: Any, call: Call) -> None:
        for message in call.messages:
            try:
                await started.write(message)
            except asyncio.InvalidStateError:  # the server has ended the call already
                return
        if call.ending is Ending.HALF_CLOSE:
            await started.done_writing()


async def _drain(responses: Any, idle_s: float | None) -> None:
    iterator: AsyncIterator[bytes] = aiter(responses)
    while True:
        reading = asyncio.ensure_future(anext(iterator, None))
        done, _ = await asyncio.wait({reading}, timeout=idle_s)
        if not done:
            reading.cancel()
            await asyncio.wait({reading})  # it may have ended meanwhile
        if reading.cancelled() or reading.result() is None:
            return


def _judge(method: Method, error: grpc.aio.AioRpcError) -> None:
    if error.details() == STATUS_LOST:
        return
    code, trailing = error.code(), dict(error.trailing_metadata() or ())
    if code in DEFECTS:
        raise HarmError(f"{method.path} failed with {code.name}: {error.details()}")
    if code in NEED_A_FIELD and not trailing.get(FIELD_KEY):
        raise HarmError(f"{method.path} refused with {code.name}, naming no field: {error.details()}")
