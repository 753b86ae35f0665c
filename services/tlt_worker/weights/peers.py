"""Fetches releases from other workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc

from tlt_common.domain.weights import ReleaseEnd, TensorChunk
from tlt_common.errors import TltError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire
from tlt_worker.weights.held_release import HeldRelease

IDLE_S = 10.0
"""Seconds without a piece after which another peer is tried: the peer, or one it receives from, may have stopped."""
GIVE_UP_S = 5.0
"""Seconds after which fetching fails while every peer fails. Peers that wait themselves do not count as failed."""
PAUSE_S = 0.1
"""Pause after all peers failed; they may not have heard of the release yet."""


async def fetch(held: HeldRelease, addresses: Sequence[str], connect: Callable[[str], grpc.aio.Channel]) -> None:
    """
    Receive a release from workers that have it or are receiving it, continuing after the pieces received so far. Does
    not complete it.

    It is fetched from one peer at a time, the nearest upstream first; each worker passes pieces on as they arrive, so
    that the time is nearly independent of the number of workers. If a peer is lost, the next one continues at the piece
    that was reached.

    Raises:
        WeightsUnreadableError: No peer provides the rest, or the disk is full.
    """
    loop = asyncio.get_running_loop()
    reached, progress_s = held.pieces, loop.time()
    errors: dict[str, str] = {}
    while loop.time() - progress_s < GIVE_UP_S:
        for address in addresses:
            try:
                async with connect(address) as channel:
                    await _fetch(held, wire.Stub(channel))
            except WeightsUnreadableError:
                raise
            except WeightsError as error:  # this peer has the pieces in another order
                raise WeightsUnreadableError(f"peer {address}: {error.message}") from error
            except TimeoutError:
                progress_s = loop.time()
            except TltError as error:
                errors[address] = error.message
            else:
                return
            before, reached = reached, held.pieces
            if reached > before:
                progress_s = loop.time()
                break
        await asyncio.sleep(PAUSE_S)
    raise WeightsUnreadableError(f"no peer provides release {held.id} after piece {reached}: {errors}")


async def _fetch(held: HeldRelease, peer: wire.Stub) -> None:
    """Receive the rest of the release from one peer."""
    call = peer.FetchWeights(wire.pb.FetchWeightsRequest(release=wire.release_to_pb(held.id), from_piece=held.pieces))
    parts = _parts(call)
    try:
        async with asyncio.timeout(IDLE_S):
            first = await anext(parts, None)
        # Not before: a peer that has nothing leaves nothing here that others would follow.
        incoming, rest = await held.spool(), _Tensors(first, parts)
        await incoming.receive(rest.follow(), idle_s=IDLE_S)
    finally:
        call.cancel()
    if rest.end is None or rest.end.pieces != held.pieces:
        count = "unknown" if rest.end is None else rest.end.pieces
        raise UnavailableError(f"the stream ended after {held.pieces} of {count} pieces")


class _Tensors:
    """The tensors of an answer. Knows how the answer ended after they have been consumed."""

    def __init__(self, first: wire.Fetched | None, rest: AsyncIterator[wire.Fetched]) -> None:
        self._first = first
        self._rest = rest
        self.end: ReleaseEnd | None = None

    async def follow(self) -> AsyncIterator[TensorChunk]:
        part = self._first
        while isinstance(part, TensorChunk):
            yield part
            part = await anext(self._rest, None)
        self.end = part


async def _parts(call: Any) -> AsyncIterator[wire.Fetched]:
    with translated():
        async for message in call:
            yield wire.fetched_from_pb(message)
