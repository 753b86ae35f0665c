"""tlt.hidden.v1: the hidden-state cache."""

from tlt_common._generated.tlt.hidden.v1 import hidden_pb2 as pb
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceServicer as Servicer
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import HiddenStateServiceStub as Stub
from tlt_common._generated.tlt.hidden.v1.hidden_pb2_grpc import add_HiddenStateServiceServicer_to_server as add_servicer
from tlt_common.domain.hidden import CacheUsage, CapturePolicy, HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["HiddenStateService"].full_name
METHODS: tuple[str, ...] = tuple(pb.DESCRIPTOR.services_by_name["HiddenStateService"].methods_by_name)

__all__ = [
    "METHODS",
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "add_servicer",
    "frame_from_pb",
    "frame_to_pb",
    "pb",
    "policy_from_pb",
    "policy_to_pb",
    "usage_from_pb",
    "usage_to_pb",
]


def frame_to_pb(frame: HiddenFrame) -> pb.Frame:
    return pb.Frame(
        request_id=frame.request_id,
        policy_version=frame.policy_version,
        start=frame.start,
        token_ids=frame.token_ids,
        hidden_size=frame.hidden_size,
        dtype=frame.dtype,
        hidden=frame.hidden,
        prompt_tokens=frame.prompt_tokens,
        response_tokens=frame.response_tokens,
        finished=frame.finished,
    )


def frame_from_pb(message: pb.Frame) -> HiddenFrame:
    """
    Raises:
        InvalidRequestError: Bytes and tokens do not agree.
    """
    return HiddenFrame(
        request_id=RequestId(message.request_id),
        policy_version=PolicyVersion(message.policy_version),
        start=message.start,
        token_ids=tuple(message.token_ids),
        hidden_size=message.hidden_size,
        dtype=message.dtype,
        hidden=message.hidden,
        prompt_tokens=message.prompt_tokens,
        response_tokens=message.response_tokens,
        finished=message.finished,
    )


def policy_to_pb(policy: CapturePolicy) -> pb.WatchPolicyResponse:
    return pb.WatchPolicyResponse(
        enabled=policy.enabled, sample_ratio=policy.sample_ratio, frame_tokens=policy.frame_tokens
    )


def policy_from_pb(message: pb.WatchPolicyResponse) -> CapturePolicy:
    return CapturePolicy(enabled=message.enabled, sample_ratio=message.sample_ratio, frame_tokens=message.frame_tokens)


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
