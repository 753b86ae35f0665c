"""tlt.hidden.v1: the hidden-state cache."""

from collections.abc import Mapping

from tlt_common import codec
from tlt_common._generated.tlt.hidden.v1 import hidden_pb2 as pb
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceServicer as Servicer
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceStub as Stub
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import add_HiddenStateServiceServicer_to_server as add_servicer
from tlt_common.domain.hidden import CacheUsage, CapturePolicy, EncodedFrame

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


def policy_to_pb(policy: CapturePolicy) -> pb.WatchPolicyResponse:
    return pb.WatchPolicyResponse(
        enabled=policy.enabled,
        sample_ratio=policy.sample_ratio,
        frame_tokens=policy.frame_tokens,
        state_bits=policy.state_bits,
    )


def policy_from_pb(message: pb.WatchPolicyResponse) -> CapturePolicy:
    return CapturePolicy(
        enabled=message.enabled,
        sample_ratio=message.sample_ratio,
        frame_tokens=message.frame_tokens,
        state_bits=message.state_bits or 16,
    )


def usage_to_pb(usage: CacheUsage) -> pb.GetUsageResponse:
    return pb.GetUsageResponse(
        frame_count=usage.frames,
        token_count=usage.tokens,
        used_bytes=usage.used_bytes,
        budget_bytes=usage.budget_bytes,
        evicted_count=usage.evicted,
    )


def usage_from_pb(message: pb.GetUsageResponse) -> CacheUsage:
    return CacheUsage(
        frames=message.frame_count,
        tokens=message.token_count,
        used_bytes=message.used_bytes,
        budget_bytes=message.budget_bytes,
        evicted=message.evicted_count,
    )
