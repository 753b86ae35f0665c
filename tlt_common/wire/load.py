"""What gateways report of running requests <-> tlt.coordinator.v1."""

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common.domain.bounds import INT32_MAX
from tlt_common.load import AnnouncedRequests, CappedLoad, GatewayLoad, WorkerLoad
from tlt_common.wire.convert import Field, pair
from tlt_common.wire.rules import entries, named

MAX_FINISHED = 65_536
"""Lengths in a report; a gateway leaves out the oldest beyond."""
MAX_WORKERS = 65_536
MAX_CAPS = 4096
MAX_BITS = 32
MAX_CALLERS = 65_536

pair(CappedLoad, pb.CappedLoad, cap="cap_tokens", counts=Field(read=entries(MAX_BITS)))
pair(WorkerLoad, pb.WorkerLoad, worker_id=Field(read=named(1)), running=Field(read=entries(MAX_CAPS)))
pair(
    AnnouncedRequests,
    pb.AnnouncedRequests,
    caller="caller_number",
    count=Field("request_count", write=lambda count: min(count, INT32_MAX)),
)
load_to_pb, load_from_pb = pair(
    GatewayLoad,
    pb.GatewayLoad,
    within="load.",
    checked=True,
    workers=Field(read=entries(MAX_WORKERS)),
    ended=Field("ended_tokens", read=entries(MAX_FINISHED), write=lambda lengths: lengths[-MAX_FINISHED:]),
    cut=Field("cut_tokens", read=entries(MAX_FINISHED), write=lambda lengths: lengths[-MAX_FINISHED:]),
    announced=Field(read=entries(MAX_CALLERS), write=lambda callers: callers[-MAX_CALLERS:]),
)
