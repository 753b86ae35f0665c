"""Keeps the responses of lost gateways for a while, for callers that retry at another gateway."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

KEPT_S = 60.0
"""Seconds for which a response is kept: a caller repeats its call at once, or after its own backoff."""
MAX_TOKENS = 1 << 20
"""Tokens kept, at about 20 bytes each; beyond that, the oldest responses are dropped."""
MAX_RESPONSES = 1024
"""Responses kept. Their keys are in every report to a gateway."""


class Kept:
    """Responses by the key of their request, which covers its owner, id and parameters."""

    def __init__(self) -> None:
        self.changed: Callable[[], None] = lambda: None
        """Called when there is more to take."""
        self._chunks: OrderedDict[str, tuple[TokenChunk, float]] = OrderedDict()
        self._tokens = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the kept responses."""
        self._expire()
        return tuple(self._chunks)

    def put(self, key: str, chunk: TokenChunk) -> None:
        """Keep a response, complete or not."""
        self.take(key)
        self._chunks[key] = chunk, asyncio.get_running_loop().time() + KEPT_S
        self._tokens += len(chunk.token_ids)
        self._expire()
        self.changed()

    def take(self, key: str) -> TokenChunk | None:
        """Return and remove a kept response; None if there is none."""
        self._expire()
        if (found := self._chunks.pop(key, None)) is None:
            return None
        self._tokens -= len(found[0].token_ids)
        return found[0]

    def _expire(self) -> None:
        now_s = asyncio.get_running_loop().time() if self._chunks else 0.0
        while self._chunks:
            chunk, until_s = next(iter(self._chunks.values()))
            if until_s > now_s and self._tokens <= MAX_TOKENS and len(self._chunks) <= MAX_RESPONSES:
                return
            self._chunks.popitem(last=False)
            self._tokens -= len(chunk.token_ids)


class Underway:
    """
    Responses of one gateway's stream, including recently sent ones: if the stream breaks, it is unknown whether they
    arrived.
    """

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._responses: OrderedDict[str, MergedChunk] = OrderedDict()
        self._sent: OrderedDict[str, float] = OrderedDict()
        """When those that are complete were."""

    def add(self, key: str, chunk: TokenChunk) -> None:
        """Record the next chunk of a response. Responses without a key and aborted ones are never requested again."""
        if not key:
            return
        if chunk.finish_reason is FinishReason.ABORT:
            self.drop(key)
            return
        response = self._responses.setdefault(key, MergedChunk())
        response.add(chunk)
        if response.is_complete:
            self._sent[key] = asyncio.get_running_loop().time() + KEPT_S
        self._forget_old()

    def drop(self, key: str) -> None:
        """Forget a response that was aborted or failed."""
        self._responses.pop(key, None)
        self._sent.pop(key, None)

    def broke(self) -> None:
        """Keep all responses because the stream has broken."""
        if self._responses:
            log.info("responses_kept", responses=len(self._responses))
        for key, response in self._responses.items():
            self._kept.put(key, response.whole())
        self._responses.clear()
        self._sent.clear()

    def _forget_old(self) -> None:
        now_s = asyncio.get_running_loop().time()
        while self._sent:
            key, until_s = next(iter(self._sent.items()))
            if until_s > now_s and len(self._sent) <= MAX_RESPONSES:
                return
            self.drop(key)
