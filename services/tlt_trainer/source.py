"""Training data from the cache, taken while a lease is held."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Never, Protocol

import grpc

from tlt_common.domain.hidden import HiddenFrame
from tlt_common.errors import AbortedError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import hidden as wire
from tlt_trainer.drafter.shape import DrafterShape
from tlt_trainer.pool import FramePool, is_usable

log = get_logger(__name__)

TAKE_S = 10.0
"""Longest a batch may take to arrive."""


class Cache(Protocol):
    """Where frames come from."""

    def take(self, *, max_tokens: int, seed: int) -> AsyncIterator[HiddenFrame]:
        """
        Hand out frames with about so many states; the same ones again only by chance.

        Raises:
            UnavailableError: It does not answer.
        """
        ...


class CacheClient:
    """The cache behind a gRPC channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = wire.Stub(channel)

    async def take(self, *, max_tokens: int, seed: int) -> AsyncIterator[HiddenFrame]:
        request = wire.pb.TakeRequest(max_tokens=max_tokens, seed=seed)
        with translated():
            async for response in self._stub.Take(request, timeout=TAKE_S):
                yield wire.frame_from_pb(response.frame)


class Source:
    """
    Fills the pool while somebody wants data.

    Args:
        wanted: Set while a lease is held; outside of it nothing is taken.
        arrived: Called when new frames came.
    """

    def __init__(
        self, cache: Cache, pool: FramePool, shape: DrafterShape, *, wanted: asyncio.Event, arrived: Callable[[], None]
    ) -> None:
        self._cache = cache
        self._pool = pool
        self._shape = shape
        self._wanted = wanted
        self._arrived = arrived
        self._reachable = True

    async def run(self, *, every_s: float, tokens: int) -> Never:
        """Take again and again, until cancelled. A cache that is away is asked again; it is logged once."""
        seed = 0
        while True:
            await self._wanted.wait()
            seed += 1
            try:
                await self._take(tokens, seed)
            except (UnavailableError, AbortedError) as error:  # gone, or going
                self._note(reachable=False, error=error.message)
            else:
                self._note(reachable=True)
            await asyncio.sleep(every_s)

    async def _take(self, tokens: int, seed: int) -> None:
        new = unusable = 0
        async for frame in self._cache.take(max_tokens=tokens, seed=seed):
            if is_usable(frame, self._shape):
                new += self._pool.add([frame])
            else:
                unusable += 1
            if not self._wanted.is_set():
                break
        if unusable:
            metrics.UNUSABLE_FRAMES.inc(unusable)
        if new:
            self._arrived()

    def _note(self, *, reachable: bool, error: str = "") -> None:
        if reachable != self._reachable:
            self._reachable = reachable
            if reachable:
                log.info("cache_reachable")
            else:
                log.warning("cache_unreachable", error=error)
