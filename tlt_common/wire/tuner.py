"""tlt.tuner.v1: pooled rewards."""

from tlt_common._generated.tlt.tuner.v1 import tuner_pb2 as pb
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import TunerServiceServicer as Servicer
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import TunerServiceStub as Stub
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import add_TunerServiceServicer_to_server as add_servicer
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.bounds import INT64_MAX, MAX_URI, require_name, require_range
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import PoolKey, Posterior

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["TunerService"].full_name
METHODS: tuple[str, ...] = tuple(pb.DESCRIPTOR.services_by_name["TunerService"].methods_by_name)

__all__ = [
    "METHODS",
    "SERVICE_NAME",
    "Servicer",
    "Stub",
    "add_servicer",
    "key_from_pb",
    "key_to_pb",
    "pb",
    "posterior_from_pb",
    "posterior_to_pb",
    "window_from_pb",
    "window_to_pb",
]


def key_to_pb(key: PoolKey) -> pb.PoolKey:
    return pb.PoolKey(fleet=key.fleet, model=key.model, device=key.device, drafter_version=key.drafter_version)


def key_from_pb(message: pb.PoolKey) -> PoolKey:
    """
    Raises:
        InvalidRequestError: A name is too long or not printable, or the version is negative.
    """
    require_name("key.fleet", message.fleet)
    require_name("key.model", message.model, most=MAX_URI)
    require_name("key.device", message.device)
    require_range("key.drafter_version", message.drafter_version, low=0, high=INT64_MAX)
    return PoolKey(
        fleet=message.fleet or "default",
        model=message.model,
        device=message.device,
        drafter_version=DrafterVersion(message.drafter_version),
    )


def window_to_pb(window: ArmWindow) -> pb.ArmWindow:
    return pb.ArmWindow(
        arm=window.arm,
        group=window.group,
        round_count=window.rounds,
        accepted_tokens=window.accepted_tokens,
        produced_tokens=window.produced_tokens,
        elapsed_s=window.elapsed_s,
        median_reward=window.median_reward,
        drafted_tokens=window.drafted_tokens,
    )


def window_from_pb(message: pb.ArmWindow) -> ArmWindow:
    return ArmWindow(
        arm=message.arm,
        group=message.group,
        rounds=message.round_count,
        accepted_tokens=message.accepted_tokens,
        produced_tokens=message.produced_tokens,
        elapsed_s=message.elapsed_s,
        median_reward=message.median_reward,
        drafted_tokens=message.drafted_tokens,
    )


def posterior_to_pb(posterior: Posterior) -> pb.WatchPosteriorResponse:
    return pb.WatchPosteriorResponse(
        drafter_version=posterior.drafter_version, arms=[window_to_pb(arm) for arm in posterior.arms]
    )


def posterior_from_pb(message: pb.WatchPosteriorResponse) -> Posterior:
    return Posterior(
        drafter_version=DrafterVersion(message.drafter_version),
        arms=tuple(window_from_pb(arm) for arm in message.arms),
    )
