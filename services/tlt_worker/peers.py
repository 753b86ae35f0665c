"""Fetches releases from other workers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import grpc

from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import TltError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.incoming import Incoming
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire

IDLE_S = 10.0
"""Seconds without a piece after which another peer is tried: the peer, or one it receives from, may have stopped."""
GIVE_UP_S = 5.0
"""Seconds after which fetching fails while every peer fails. Peers that wait themselves do not count as failed."""
PAUSE_S = 0.1
"""Pause after all peers failed; they may not have heard of the release yet."""


class Peers:
    """
    Other workers that have a release or are receiving it.

    A release is fetched from one peer at a time, the nearest upstream first; each worker passes pieces on as they
    arrive, so that the time is nearly independent of the number of workers. If a peer is lost, the next one continues
    at the piece that was reached.
    """

    def __init__(self, connect: Callable[[str], grpc.aio.Channel], *, idle_s: float = IDLE_S) -> None:
        self._connect = connect
        self._idle_s = idle_s

    async def fetch(self, release: ReleaseId, addresses: Sequence[str], incoming: Incoming) -> None:
        """
        Receive a release, continuing after what has arrived. Does not finish the spool.

        Raises:
            WeightsUnreadableError: No peer provides the rest, or the disk is full.
        """
        loop = asyncio.get_running_loop()
        reached, progress_s = len(incoming.log), loop.time()
        errors: dict[str, str] = {}
        while loop.time() - progress_s < GIVE_UP_S:
            for address in addresses:
                try:
                    await self._fetch(release, address, incoming)
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
                if len(incoming.log) > reached:
                    reached, progress_s = len(incoming.log), loop.time()
                    break
            await asyncio.sleep(PAUSE_S)
        raise WeightsUnreadableError(f"no peer provides release {release} after piece {reached}: {errors}")

    async def _fetch(self, release: ReleaseId, address: str, incoming: Incoming) -> None:
        from_piece = len(incoming.log)
        request = wire.pb.FetchWeightsRequest(release=wire.release_to_pb(release), from_piece=from_piece)
        count: int | None = None

        async def tensors() -> AsyncIterator[TensorChunk]:
            nonlocal count
            with translated():
                async for message in call:
                    if message.WhichOneof("part") == "end":
                        count = message.end.piece_count
                    else:
                        yield wire.tensor_from_pb(message.tensor)

        async with self._connect(address) as channel:
            call = wire.Stub(channel).FetchWeights(request)
            try:
                await incoming.receive(tensors(), idle_s=self._idle_s)
            finally:
                call.cancel()
        if count is None or count != len(incoming.log):
            raise UnavailableError(f"the stream ended after {len(incoming.log)} of {count or 'unknown'} pieces")
