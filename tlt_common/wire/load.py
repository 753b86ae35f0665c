"""What gateways report of running requests <-> tlt.coordinator.v1."""

from collections.abc import Sequence

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common.domain.bounds import INT32_MAX, require_count, require_name, require_range
from tlt_common.domain.ids import WorkerId
from tlt_common.load import AnnouncedRequests, CappedLoad, GatewayLoad, WorkerLoad

MAX_FINISHED = 65_536
"""Lengths in a report; a gateway leaves out the oldest beyond."""
MAX_WORKERS = 65_536
MAX_CAPS = 4096
MAX_BITS = 32
MAX_CALLERS = 65_536


def load_to_pb(load: GatewayLoad) -> pb.GatewayLoad:
    return pb.GatewayLoad(
        workers=[
            pb.WorkerLoad(
                worker_id=worker.worker_id,
                running=[pb.CappedLoad(cap_tokens=of.cap, counts=of.counts) for of in worker.running],
            )
            for worker in load.workers
        ],
        ended_tokens=load.ended[-MAX_FINISHED:],
        cut_tokens=load.cut[-MAX_FINISHED:],
        announced=[
            pb.AnnouncedRequests(caller_number=one.caller, request_count=min(one.count, INT32_MAX))
            for one in load.announced[-MAX_CALLERS:]
        ],
    )


def load_from_pb(message: pb.GatewayLoad) -> GatewayLoad:
    """
    Raises:
        InvalidRequestError: A name is missing or too long, or a number is out of range.
    """
    require_count("load.workers", len(message.workers), most=MAX_WORKERS)
    for field, lengths in (("load.ended_tokens", message.ended_tokens), ("load.cut_tokens", message.cut_tokens)):
        require_count(field, len(lengths), most=MAX_FINISHED)
        for length in lengths:
            require_range(field, length, low=0, high=INT32_MAX)
    return GatewayLoad(
        workers=tuple(map(_load_from_pb, message.workers)),
        ended=tuple(message.ended_tokens),
        cut=tuple(message.cut_tokens),
        announced=_announced_from_pb(message.announced),
    )


def _announced_from_pb(messages: Sequence[pb.AnnouncedRequests]) -> tuple[AnnouncedRequests, ...]:
    require_count("load.announced", len(messages), most=MAX_CALLERS)
    for message in messages:
        require_range("load.announced.caller_number", message.caller_number, low=0, high=INT32_MAX)
        require_range("load.announced.request_count", message.request_count, low=0, high=INT32_MAX)
    return tuple(AnnouncedRequests(caller=message.caller_number, count=message.request_count) for message in messages)


def _load_from_pb(message: pb.WorkerLoad) -> WorkerLoad:
    require_name("load.workers.worker_id", message.worker_id, least=1)
    require_count("load.workers.running", len(message.running), most=MAX_CAPS)
    for of in message.running:
        require_range("load.workers.running.cap_tokens", of.cap_tokens, low=0, high=INT32_MAX)
        require_count("load.workers.running.counts", len(of.counts), most=MAX_BITS)
        for count in of.counts:
            require_range("load.workers.running.counts", count, low=0, high=INT32_MAX)
    return WorkerLoad(
        worker_id=WorkerId(message.worker_id),
        running=tuple(CappedLoad(cap=of.cap_tokens, counts=tuple(of.counts)) for of in message.running),
    )
