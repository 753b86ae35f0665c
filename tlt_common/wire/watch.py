"""What gateways and workers tell each other of their states <-> tlt.worker.v1."""

from collections.abc import AsyncGenerator, AsyncIterator

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.fleet import WatchDemand, WatchReport, WorkerInfo
from tlt_common.domain.pause import Pause
from tlt_common.domain.weights import ServedRelease
from tlt_common.wire.convert import Field, Parts, Unsent, pair
from tlt_common.wire.rules import named, taken
from tlt_common.wire.weights import release_from_pb, release_to_pb, source_from_pb, source_to_pb


def _served(_: str, message: pb.WorkerInfo) -> ServedRelease | None:
    if not message.HasField("release"):
        return None
    return ServedRelease(id=release_from_pb(message.release), uri=source_from_pb(message))


pair(Pause, pb.Pause, left_s=Field(read=taken(lambda left_s: left_s if left_s > 0 else 0.0)))
pair(ArmWindow, pb.ArmRounds, median_reward=Unsent(0.0), drafted_tokens=Unsent())
info_to_pb, info_from_pb = pair(
    WorkerInfo,
    pb.WorkerInfo,
    release=Parts(
        {
            "release": lambda info: release_to_pb(info.release.id) if info.release else None,
            "source": lambda info: source_to_pb(info.release.uri) if info.release else None,
        },
        _served,
    ),
)
demand_to_pb, demand_from_pb = pair(
    WatchDemand,
    pb.WatchRequest,
    gateway_id=Field(read=named()),
    demand=Field(read=taken(lambda count: max(0, count))),
)
report_to_pb, report_from_pb = pair(WatchReport, pb.WatchResponse, kept="kept_keys")


async def demands_from_pb(messages: AsyncIterator[pb.WatchRequest]) -> AsyncGenerator[WatchDemand, None]:
    """
    Decode a stream. A function, since an expression would open the stream before it is read: gRPC warns of one that
    never is.

    Raises:
        InvalidRequestError: The gateway's name is too long or not printable.
    """
    async for message in messages:
        yield demand_from_pb(message)
