"""A response streamed by a worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias

import grpc

from tlt_common.domain.rollout import TokenChunk
from tlt_common.errors import AbortedError, HungUpError, TltError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire

Call: TypeAlias = grpc.aio.UnaryStreamCall[wire.pb.GenerateRequest, wire.pb.GenerateResponse]


class ResponseStream:
    """
    Args:
        heard: Called at every message.
    """

    def __init__(self, call: Call, heard: Callable[[], None]) -> None:
        self._call = call
        self._heard = heard
        self._ended_by: TltError | None = None

    def hang_up(self) -> None:
        """Cancel the call: the worker aborts the request, and the reader gets AbortedError."""
        self._end(AbortedError("the request was aborted"))

    def give_up(self, why: str) -> None:
        """Cancel the call because the worker is lost: the reader gets UnavailableError."""
        self._end(UnavailableError(why))

    async def chunks(self) -> AsyncGenerator[TokenChunk, None]:
        """
        Yield the chunks of the response. Closing the iterator cancels the call.

        Raises:
            AbortedError: `hang_up` was called.
            HungUpError: The worker cancelled the call.
            UnavailableError: The worker is lost.
        """
        try:
            with translated():
                async for message in self._call:
                    self._heard()
                    yield wire.chunk_from_pb(message.chunk)
        except AbortedError as error:  # not cancelled here: a worker cancels its calls when it shuts down
            raise HungUpError(f"the worker cancelled the response: {error.message}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # Cancelling the call and cancelling the task both raise CancelledError; only the task tells which it was.
            if self._ended_by and task is not None and not task.cancelling():
                raise self._ended_by from None
            raise
        finally:
            self._call.cancel()

    def _end(self, by: TltError) -> None:
        self._ended_by = self._ended_by or by
        self._call.cancel()
