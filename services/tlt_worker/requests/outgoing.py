"""Pending output of one stream: at most one chunk per response, merged until the stream takes it."""

import asyncio
import math
from collections import defaultdict

from tlt_common.domain.ids import RequestId
from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.requests import Failure, Part

PACE_S = 0.05
"""Least seconds between two messages, unless a response ends: rounds in between are merged. A gateway of many workers
would otherwise be busy with messages alone, since each worker has dozens of rounds per second."""
MAX_TOKENS = 65536
"""Tokens per message, about 1 MiB, unless a single chunk has more."""
TOKEN_BYTES = 16
"""Bytes of a token in a message."""
LOGPROB_BYTES = 4
"""Bytes of a prompt token's log-probability in a message."""


class Outgoing:
    """
    Parts for one reader. A slow reader costs a few bytes per token of its running responses and blocks nobody.

    Args:
        pace_s: Minimum seconds between two messages.
    """

    def __init__(self, pace_s: float = PACE_S) -> None:
        self._pace_s = pace_s
        self._chunks: defaultdict[RequestId, MergedChunk] = defaultdict(MergedChunk)
        self._failures: list[Failure] = []
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._taken_at_s = -math.inf

    @property
    def is_empty(self) -> bool:
        """Whether nothing is pending."""
        return not (self._chunks or self._failures)

    def put(self, part: Part) -> None:
        """Add the next part of a request."""
        if isinstance(part, Failure):
            self._failures.append(part)
        else:
            self._chunks[part.request_id].add(part)
        if isinstance(part, Failure) or part.finish_reason is not None:
            self._urgent.set()
        self._filled.set()

    def forget(self, request_id: RequestId) -> None:
        """Drop the unsent parts of a request."""
        self._chunks.pop(request_id, None)

    def wake(self) -> None:
        """Wake `take` even if nothing is pending."""
        self._filled.set()
        self._urgent.set()

    async def take(self) -> list[Part]:
        """Wait for pending parts; return the content of one message, in order for each request."""
        await self._filled.wait()
        loop = asyncio.get_running_loop()
        due_s = self._taken_at_s + self._pace_s - loop.time()
        if due_s > 0 and not self._urgent.is_set():
            try:
                async with asyncio.timeout(due_s):
                    await self._urgent.wait()
            except TimeoutError:
                pass
        self._taken_at_s = loop.time()
        return self._message()

    def _message(self) -> list[Part]:
        parts: list[Part] = []
        tokens = 0
        while self._chunks and tokens < MAX_TOKENS:
            merged = self._chunks.pop(next(iter(self._chunks)))
            parts.append(chunk := merged.whole())
            routed = 0 if chunk.routed_experts is None else len(chunk.routed_experts.data)
            scored = 0 if chunk.prompt_logprobs is None else len(chunk.prompt_logprobs.logprobs) * LOGPROB_BYTES
            tokens += merged.count + (routed + scored) // TOKEN_BYTES
        if not self._chunks:
            # A failure follows the chunks of its request.
            parts += self._failures
            self._failures.clear()
            self._filled.clear()
            self._urgent.clear()
        return parts
