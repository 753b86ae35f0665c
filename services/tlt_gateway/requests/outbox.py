"""Pending output of a batch: the tokens of each sample, merged until the caller reads them."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator
from typing import TypeAlias

from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import TltError
from tlt_gateway.queue.gate import Gate

FLUSH_S = 0.25
"""Seconds for which the tokens of unfinished samples are merged: less to send, and little to repeat after a break."""
MAX_HELD_TOKENS = 4 * 2**20
"""Tokens held for a caller that reads slowly, about 80 MiB; beyond that, samples that have not started wait. Those that
run are not held up, since they would keep slots that others need."""

Place: TypeAlias = tuple[int, int]
"""Prompt index, sample index."""


class Outbox:
    """
    Args:
        stream_tokens: Send tokens of unfinished samples every `FLUSH_S` seconds; otherwise only complete responses.
    """

    def __init__(self, *, stream_tokens: bool) -> None:
        self._stream_tokens = stream_tokens
        self._open: defaultdict[Place, MergedChunk] = defaultdict(MergedChunk)
        self._finished: dict[Place, MergedChunk] = {}
        self._held_tokens = 0
        self._failure: TltError | None = None
        self._due = asyncio.Event()
        self.gate = Gate()
        """Closed while the caller is too far behind for another sample to start."""

    def put(self, place: Place, chunk: TokenChunk) -> None:
        """Add the next chunk of a sample."""
        self._open[place].add(chunk)
        self._hold(_tokens(chunk))
        if chunk.finish_reason is not None:
            self._finished[place] = self._open.pop(place)
            self._due.set()

    def fail(self, error: TltError) -> None:
        """End the batch with an error."""
        self._failure = self._failure or error
        self._due.set()

    async def chunks(self, count: int) -> AsyncGenerator[tuple[Place, TokenChunk], None]:
        """
        Yield chunks until `count` samples have finished, finished samples first.

        Raises:
            TltError: A sample failed.
        """
        while count:
            await self._until_due()
            if self._failure:
                raise self._failure
            while self._finished:
                place = next(iter(self._finished))
                yield place, self._taken(self._finished.pop(place))
                count -= 1
            if self._stream_tokens:
                for place in list(self._open):
                    if merged := self._open.pop(place, None):
                        yield place, self._taken(merged)

    async def _until_due(self) -> None:
        if not self._finished:
            self._due.clear()
            if self._failure:
                return
            try:
                async with asyncio.timeout(FLUSH_S if self._stream_tokens else None):
                    await self._due.wait()
            except TimeoutError:
                return

    def _taken(self, merged: MergedChunk) -> TokenChunk:
        chunk = merged.whole()
        self._hold(-_tokens(chunk))
        return chunk

    def _hold(self, tokens: int) -> None:
        self._held_tokens += tokens
        self.gate.set(is_open=self._held_tokens <= MAX_HELD_TOKENS)


def _tokens(chunk: TokenChunk) -> int:
    """Return the number of tokens that take as much memory as a chunk; a prompt's log-probability takes a fifth."""
    scored = 0 if chunk.prompt_logprobs is None else len(chunk.prompt_logprobs.logprobs)
    return len(chunk.token_ids) + scored // 5
