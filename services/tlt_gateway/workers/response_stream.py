"""A response streamed by a worker."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager

from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import AbortedError, TltError, UnavailableError


class ResponseStream:
    """
    Merges the chunks of a response until they are read. A slow reader holds a few bytes per token and blocks nobody.

    Args:
        running: Context held while the response is read. Starts the request, and hangs up unless the response is
            complete.
    """

    def __init__(self, running: Callable[["ResponseStream"], AbstractContextManager[None]]) -> None:
        self._running = running
        self._merged: MergedChunk | None = None
        self._ended_by: TltError | None = None
        self._changed = asyncio.Event()
        self.is_complete = False
        """Whether the last chunk has arrived, or the worker reported a failure: nothing follows."""

    def add(self, chunk: TokenChunk) -> None:
        """Add the next chunk."""
        if self._merged is None:
            self._merged = MergedChunk()
            self._changed.set()
        self._merged.add(chunk)
        self.is_complete = chunk.finish_reason is not None

    def fail(self, error: TltError) -> None:
        """End the response with the worker's error."""
        self.is_complete = True
        self._end(error)

    def hang_up(self) -> None:
        """Abort the request: the reader gets AbortedError."""
        self._end(AbortedError("the request was aborted"))

    def lose(self, error: UnavailableError) -> None:
        """End the response because its worker is lost."""
        self._end(error)

    async def chunks(self) -> AsyncGenerator[TokenChunk, None]:
        """
        Start the request and yield the chunks of its response. Closing the iterator hangs up.

        Raises:
            AbortedError: `hang_up` was called.
            HungUpError: The worker ended the stream.
            UnavailableError: The worker is lost.
            TltError: The request failed.
        """
        with self._running(self):
            while True:
                while (merged := self._merged) is None:
                    if self._ended_by is not None:
                        raise self._ended_by
                    self._changed.clear()
                    await self._changed.wait()
                self._merged = None
                yield merged.whole()
                if merged.is_complete:
                    return

    def _end(self, by: TltError) -> None:
        self._ended_by = self._ended_by or by
        self._changed.set()
