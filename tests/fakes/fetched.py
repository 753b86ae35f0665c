"""What a worker does when it is told to stage a release: compares it, and fetches it."""

import asyncio

from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk
from tlt_common.errors import StaleVersionError, TltError, WeightsUnreadableError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire


async def fetched(order: StageOrder) -> list[TensorChunk]:
    """Fetch a release from the first peer that has it, trying for a second."""
    request = wire.pb.FetchWeightsRequest(release=wire.release_to_pb(order.release))
    for _ in range(50):
        for peer in order.peers:
            try:
                async with connect(peer) as channel:
                    with translated():
                        messages = [message async for message in wire.Stub(channel).FetchWeights(request)]
            except TltError:
                continue
            return [wire.tensor_from_pb(message.tensor) for message in messages[:-1]]
        await asyncio.sleep(0.02)
    raise WeightsUnreadableError("no peer has the release")


def require_newer(order: StageOrder, *, served: ReleaseId, staged: ReleaseId | None) -> None:
    """Raise StaleVersionError if another release has won."""
    same_version = order.release.version == served.version and order.release != served
    if (same_version and not order.joining) or order.release < served or (staged and order.release < staged):
        raise StaleVersionError(f"release {order.release} was overtaken", field="release")
