"""Follows a peer's stream, reconnecting until cancelled."""

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Never, TypeVar

from tlt_common.aio import backoff
from tlt_common.errors import TltError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

T = TypeVar("T")


def _nothing() -> None: ...


async def follow(
    peer: str, stream: Callable[[], AsyncIterable[T]], take: Callable[[T], None], *, lost: Callable[[], None] = _nothing
) -> Never:
    """
    Pass every message of `stream()` to `take`. Reopen the stream with backoff whenever it ends or fails.

    The peer's errors are logged, not raised: rollouts depend on none of these peers. `lost` is called whenever a stream
    ends, also on cancellation.
    """
    delays = backoff()
    while True:
        error = "the stream ended"
        try:
            with translated():
                async for message in stream():
                    delays = backoff()
                    take(message)
        except TltError as failure:
            error = f"{failure.reason}: {failure.message}"
        finally:
            lost()
        log.warning("peer_lost", peer=peer, error=error)
        await asyncio.sleep(next(delays))
