"""Fetches training data from the cache while a lease is held."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, Never, Protocol

import grpc

from tlt_common import codec
from tlt_common.domain.hidden import FrameHeader
from tlt_common.drafter.format import DrafterFormat
from tlt_common.errors import AbortedError, InvalidRequestError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire
from tlt_trainer.data.frame import decoded
from tlt_trainer.data.frame_pool import Defect, FramePool, defect_of
from tlt_trainer.data.intake import take_size

log = get_logger(__name__)

TAKE_S = 10.0
"""Time limit, in seconds, for a batch to arrive."""


class CachedFrame(NamedTuple):
    """An encoded frame, and its position in its shard's order of arrival."""

    cursor: int
    blob: bytes
    shard: int = 0


class FrameCache(Protocol):
    """Source of frames."""

    def take(self, *, max_tokens: int, seed: int, newer_than: Mapping[int, int]) -> AsyncIterator[CachedFrame]:
        """
        Yield frames with at most `max_tokens` states in total, chosen from those that arrived after `newer_than`, the
        cursor of their shard.

        Raises:
            UnavailableError: The cache is unreachable.
        """
        ...


class CacheClient:
    """The cache behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = wire.Stub(channel)

    async def take(self, *, max_tokens: int, seed: int, newer_than: Mapping[int, int]) -> AsyncIterator[CachedFrame]:
        request = wire.take_request(max_tokens=max_tokens, seed=seed, newer_than=newer_than)
        with translated():
            async for response in self._stub.Take(request, timeout=TAKE_S):
                yield CachedFrame(response.cursor, response.frame, response.shard)


class FrameSource:
    """
    Fills the pool while a lease is held, with new frames only, and no more of them than are trained on.

    The first take of a lease is not limited that way: frames that arrived since the last lease were never seen, and
    frames that a take skips are not offered again.

    While training rests, it looks for frames that are worth resuming for.

    Args:
        wanted: Set while a lease is held. Nothing is fetched otherwise.
        arrived: Called when new frames have arrived.
    """

    def __init__(
        self,
        cache: FrameCache,
        pool: FramePool,
        form: DrafterFormat,
        *,
        wanted: asyncio.Event,
        arrived: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._pool = pool
        self._form = form
        self._wanted = wanted
        self._arrived = arrived
        self._reachable = True
        self._told: set[Defect] = set()
        self._cursors: dict[int, int] = {}
        self._drawn_tokens = 0  # when frames were last taken

    async def run(self, *, every_s: float, tokens: int) -> Never:
        """
        Fetch periodically until cancelled. An unreachable cache is retried and logged once.

        Args:
            every_s: Seconds between calls.
            tokens: Maximum tokens per call, and the minimum that the pool should hold.
        """
        seed = 0
        while True:
            begins = not self._wanted.is_set()
            await self._wanted.wait()
            seed += 1
            await self._try_to_take(tokens if begins else self._needed(tokens), seed, self._wanted)
            await asyncio.sleep(every_s)

    async def look(self, resting: asyncio.Event, *, every_s: float, tokens: int) -> Never:
        """
        Fetch unseen frames while training rests, until cancelled. They may be worth training on.

        Args:
            resting: Set while it rests.
            every_s: Seconds between calls.
            tokens: Maximum tokens per call.
        """
        seed = 0
        while True:
            await resting.wait()
            seed += 1
            await self._try_to_take(tokens, seed, resting)
            await asyncio.sleep(every_s)

    async def _try_to_take(self, tokens: int, seed: int, wanted: asyncio.Event) -> None:
        try:
            if tokens:
                await self._take(tokens, seed, wanted)
        except (UnavailableError, AbortedError) as error:  # unreachable, or shutting down
            self._note(reachable=False, error=error.message)
        else:
            self._note(reachable=True)

    def _needed(self, tokens: int) -> int:
        drawn = self._pool.drawn_tokens - self._drawn_tokens
        return take_size(tokens, held=self._pool.training_tokens, drawn=drawn)

    async def _take(self, tokens: int, seed: int, wanted: asyncio.Event) -> None:
        self._drawn_tokens = self._pool.drawn_tokens
        new, refused = 0, list[InvalidRequestError]()
        newer_than = dict(self._cursors)
        async for frame in self._cache.take(max_tokens=tokens, seed=seed, newer_than=newer_than):
            self._cursors[frame.shard] = max(self._cursors.get(frame.shard, 0), frame.cursor)
            try:
                new += self._add(frame.blob)
            except InvalidRequestError as error:
                refused.append(error)
            if not wanted.is_set():
                break
        if refused:
            metrics.UNUSABLE_FRAMES.labels(reason=Defect.INVALID).inc(len(refused))
            log.warning("frames_refused", count=len(refused), field=refused[0].field, error=refused[0].message)
        if new:
            self._arrived()

    def _add(self, blob: bytes) -> int:
        """
        Decode a frame and add it unless the pool has it. Return the number of new frames, 0 or 1.

        Raises:
            InvalidRequestError: It cannot be decoded, its states are of another size, or it contains a token id outside
                the policy's vocabulary.
        """
        frame = codec.read(blob)
        if self._pool.holds(frame.header):
            return 0
        if (defect := defect_of(frame.header, self._form)) is not None:
            metrics.UNUSABLE_FRAMES.labels(reason=defect).inc()
            self._note_defect(frame.header, defect)
            return 0
        made = decoded(frame)
        if (largest := int(made.token_ids.max())) >= self._form.vocab_size:
            raise InvalidRequestError(
                f"frame.token_ids contains {largest}; accepted: below {self._form.vocab_size}", field="frame.token_ids"
            )
        return self._pool.add([made])

    def _note_defect(self, header: FrameHeader, defect: Defect) -> None:
        """
        Log once that unusable frames arrive. Frames with only prompt tokens are expected; all others indicate a faulty
        set-up.
        """
        if defect is not Defect.NOTHING_GENERATED and defect not in self._told:
            self._told.add(defect)
            told = {"layers": header.layers, "hidden_size": header.hidden_size}
            log.warning("frames_unusable", reason=defect, **told, accepted_layers=self._form.layers)

    def _note(self, *, reachable: bool, error: str = "") -> None:
        if reachable != self._reachable:
            self._reachable = reachable
            if reachable:
                log.info("cache_reachable")
            else:
                log.warning("cache_unreachable", error=error)
