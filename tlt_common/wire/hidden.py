"""tlt.hidden.v1: the hidden-state cache."""

from collections.abc import Mapping

from tlt_common import codec
from tlt_common._generated.tlt.hidden.v1 import hidden_pb2 as pb
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceServicer as Servicer
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceStub as Stub
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import add_HiddenStateServiceServicer_to_server as add_servicer
from tlt_common.domain.hidden import CacheUsage, CapturePolicy, EncodedFrame
from tlt_common.wire.convert import Field, pair
from tlt_common.wire.rules import taken

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["HiddenStateService"].full_name
METHODS: tuple[str, ...] = tuple(pb.DESCRIPTOR.services_by_name["HiddenStateService"].methods_by_name)

__all__ = [
    "METHODS",
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "add_servicer",
    "cursors_from_pb",
    "frame_from_pb",
    "pb",
    "policy_from_pb",
    "policy_to_pb",
    "put_request",
    "take_request",
    "usage_from_pb",
    "usage_to_pb",
]


def put_request(frame: EncodedFrame) -> pb.PutRequest:
    return pb.PutRequest(frame=frame.blob)


def frame_from_pb(message: pb.PutRequest | pb.TakeResponse) -> EncodedFrame:
    """
    Read the header of a frame, without reading token ids or states.

    Raises:
        InvalidRequestError: The header is invalid or does not match the length.
    """
    return codec.read(message.frame)


def take_request(*, max_tokens: int, seed: int, newer_than: Mapping[int, int]) -> pb.TakeRequest:
    """Ask for frames that arrived after the cursor of their shard."""
    return pb.TakeRequest(max_tokens=max_tokens, seed=seed, newer_than_by_shard=newer_than)


def cursors_from_pb(message: pb.TakeRequest) -> dict[int, int]:
    """Return the cursor of each shard."""
    return {0: message.newer_than, **message.newer_than_by_shard}


policy_to_pb, policy_from_pb = pair(
    CapturePolicy, pb.WatchPolicyResponse, state_bits=Field(read=taken(lambda bits: bits or 16))
)
usage_to_pb, usage_from_pb = pair(CacheUsage, pb.GetUsageResponse)
