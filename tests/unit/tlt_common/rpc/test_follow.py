import asyncio
import itertools
from collections.abc import AsyncIterator

import grpc
import pytest

from tlt_common.errors import StaleEpochError, UnavailableError
from tlt_common.rpc.follow import follow

pytestmark = pytest.mark.looptime


async def test_every_message_is_taken_over_ends_and_failures_of_the_stream() -> None:
    opened = 0
    taken: list[int] = []
    losses: list[int] = []

    async def stream() -> AsyncIterator[int]:
        nonlocal opened
        opened += 1
        yield opened
        if opened == 1:
            raise UnavailableError("restarting")
        if opened == 2:
            raise StaleEpochError("not an error of ours either")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3):
            await follow("peer", stream, taken.append, lost=lambda: losses.append(opened))
    assert taken == list(range(1, opened + 1))
    assert opened > 3
    assert losses[:3] == [1, 2, 3]


async def test_a_peer_that_stays_away_is_asked_more_and_more_rarely() -> None:
    asked: list[float] = []

    async def stream() -> AsyncIterator[int]:
        asked.append(asyncio.get_running_loop().time())
        raise UnavailableError("away")
        yield 0  # makes it a stream

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(60):
            await follow("peer", stream, print)
    gaps = [later - earlier for earlier, later in itertools.pairwise(asked)]
    assert gaps[0] < 0.2
    assert 1.0 < gaps[-1] < 5.0


async def test_a_cancelled_follower_ends_even_when_the_call_fails_at_the_same_moment() -> None:
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise grpc.aio.AioRpcError(
                grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "went away"
            ) from None

    follower = asyncio.ensure_future(follow("peer", stream, lambda _: None))
    await asyncio.sleep(1)
    follower.cancel()
    await asyncio.wait({follower}, timeout=60)
    assert follower.cancelled()
