"""Fetches releases from other workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias

import grpc

from tlt_common.domain.weights import ReleaseEnd, ReleaseId, SpoolFile, TensorChunk, WrittenPiece
from tlt_common.errors import TltError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.machine import boot_id
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import worker as wire
from tlt_worker.weights.release_attempts import ReleaseAttempts

log = get_logger(__name__)

Part: TypeAlias = TensorChunk | SpoolFile | WrittenPiece | ReleaseEnd

IDLE_S = 10.0
"""Seconds without a piece after which another peer is tried: the peer, or one it receives from, may have stopped."""
GIVE_UP_S = 5.0
"""Seconds after which fetching fails while every peer fails. Peers that wait themselves do not count as failed."""
PAUSE_S = 0.1
"""Pause after all peers failed; they may not have heard of the release yet."""


class WeightPeers:
    """
    Other workers that have a release or are receiving it.

    A release is fetched from one peer at a time, the nearest upstream first; each worker passes pieces on as they
    arrive, so that the time is nearly independent of the number of workers. If a peer is lost, the next one continues
    at the piece that was reached. A peer on this machine offers its file to be linked instead.
    """

    def __init__(self, connect: Callable[[str], grpc.aio.Channel], *, idle_s: float = IDLE_S) -> None:
        self._connect = connect
        self._idle_s = idle_s

    async def fetch(self, release: ReleaseId, addresses: Sequence[str], arrival: ReleaseAttempts) -> None:
        """
        Receive a release, continuing after what has arrived. Does not finish it.

        Raises:
            WeightsUnreadableError: No peer provides the rest, or the disk is full.
        """
        loop = asyncio.get_running_loop()
        reached, progress_s = arrival.pieces, loop.time()
        errors: dict[str, str] = {}
        while loop.time() - progress_s < GIVE_UP_S:
            for address in addresses:
                try:
                    await self._fetch(release, address, arrival)
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
                arrival.lose(f"peer {address} was lost")
                before, reached = reached, arrival.pieces
                if reached > before:
                    progress_s = loop.time()
                    break
            await asyncio.sleep(PAUSE_S)
        raise WeightsUnreadableError(f"no peer provides release {release} after piece {reached}: {errors}")

    async def _fetch(self, release: ReleaseId, address: str, arrival: ReleaseAttempts) -> None:
        async with self._connect(address) as channel:
            stub = wire.Stub(channel)
            if not await self._attempt(stub, release, arrival, machine="" if arrival.pieces else boot_id()):
                await self._attempt(stub, release, arrival, machine="")

    async def _attempt(self, stub: wire.Stub, release: ReleaseId, arrival: ReleaseAttempts, *, machine: str) -> bool:
        """Receive the release from one peer; return False if it offers a file that cannot be linked."""
        call = stub.FetchWeights(
            wire.pb.FetchWeightsRequest(release=wire.release_to_pb(release), from_piece=arrival.pieces, machine=machine)
        )
        parts = _parts(call)
        try:
            async with asyncio.timeout(self._idle_s):
                first = await anext(parts, None)
            if isinstance(first, SpoolFile):
                return await self._linked(first, parts, arrival)
            incoming, rest = await arrival.spool(), _Tensors(first, parts)
            await incoming.receive(rest.follow(), idle_s=self._idle_s)
        finally:
            call.cancel()
        if rest.end is None or rest.end.pieces != arrival.pieces:
            count = "unknown" if rest.end is None else rest.end.pieces
            raise UnavailableError(f"the stream ended after {arrival.pieces} of {count} pieces")
        return True

    async def _linked(self, file: SpoolFile, parts: AsyncIterator[Part], arrival: ReleaseAttempts) -> bool:
        try:
            linked = await arrival.link(file)
        except WeightsUnreadableError as error:
            log.info("not_linked", error=error.message)
            return False
        await linked.receive(_written(parts), idle_s=self._idle_s)
        return True


class _Tensors:
    """The tensors of an answer, and its end once they have been followed."""

    def __init__(self, first: Part | None, rest: AsyncIterator[Part]) -> None:
        self._first = first
        self._rest = rest
        self.end: ReleaseEnd | None = None

    async def follow(self) -> AsyncIterator[TensorChunk]:
        part = self._first
        while isinstance(part, TensorChunk):
            yield part
            part = await anext(self._rest, None)
        self.end = part if isinstance(part, ReleaseEnd) else None


async def _written(parts: AsyncIterator[Part]) -> AsyncIterator[WrittenPiece | ReleaseEnd]:
    async for part in parts:
        if not isinstance(part, WrittenPiece | ReleaseEnd):
            raise UnavailableError("a tensor follows a file")
        yield part


async def _parts(call: Any) -> AsyncIterator[Part]:
    with translated():
        async for message in call:
            yield wire.fetched_from_pb(message)
