"""tlt.tuner.v1: pooled rewards."""

from tlt_common._generated.tlt.tuner.v1 import tuner_pb2 as pb
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import TunerServiceServicer as Servicer
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import TunerServiceStub as Stub
from tlt_common._generated.tlt.tuner.v1.tuner_pb2_grpc import add_TunerServiceServicer_to_server as add_servicer
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.bounds import MAX_URI
from tlt_common.domain.tuner import PoolKey, Posterior
from tlt_common.wire.convert import Field, Unsent, pair
from tlt_common.wire.rules import named

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


key_to_pb, key_from_pb = pair(
    PoolKey,
    pb.PoolKey,
    within="key.",
    checked=True,
    fleet=Field(read=lambda path, fleet: named()(path, fleet) or "default"),
    model=Field(read=named(most=MAX_URI)),
)
window_to_pb, window_from_pb = pair(ArmWindow, pb.ArmWindow, kv_tokens=Unsent())
posterior_to_pb, posterior_from_pb = pair(Posterior, pb.WatchPosteriorResponse)
