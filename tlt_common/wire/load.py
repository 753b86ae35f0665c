"""What gateways report of running requests, and the tail that they share <-> tlt.coordinator.v1."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from tlt_common._generated.tlt.coordinator.v1 import coordinator_pb2 as pb
from tlt_common.domain.bounds import INT32_MAX, INT64_MAX, require_count, require_name, require_range
from tlt_common.domain.ids import WorkerId
from tlt_common.errors import InvalidRequestError
from tlt_common.forecast import LEVELS, Left, TailRequest, TailView, TailWorker, TokenPace
from tlt_common.forecast.load import AnnouncedRequests, CappedLoad, GatewayLoad, MovedRequest, TailReport, WorkerLoad

MAX_FINISHED = 65_536
"""Lengths in a report; a gateway leaves out the oldest beyond."""
MAX_TAIL = 65_536
MAX_CAPS = 4096
MAX_BITS = 32
MAX_PACE = 1024
MAX_CALLERS = 65_536


def load_to_pb(load: GatewayLoad) -> pb.GatewayLoad:
    return pb.GatewayLoad(
        workers=[
            pb.WorkerLoad(
                worker_id=worker.worker_id,
                kv_tokens=worker.kv_tokens,
                running=[pb.CappedLoad(cap_tokens=of.cap, counts=of.counts) for of in worker.running],
            )
            for worker in load.workers
        ],
        ended_tokens=load.ended[-MAX_FINISHED:],
        cut_tokens=load.cut[-MAX_FINISHED:],
        tail=pb.TailReport(
            is_settled=load.tail.is_settled,
            workers=map(_worker_to_pb, load.tail.workers),
            requests=map(_request_to_pb, load.tail.requests),
        )
        if load.tail
        else None,
        moved=[
            pb.MovedRequest(
                from_worker_id=one.from_id, to_worker_id=one.to_id, kv_tokens=one.kv_tokens, age_s=one.age_s
            )
            for one in load.moved[-MAX_TAIL:]
        ],
        announced=[
            pb.AnnouncedRequests(caller_number=one.caller, request_count=min(one.count, INT32_MAX))
            for one in load.announced[-MAX_CALLERS:]
        ],
    )


def load_from_pb(message: pb.GatewayLoad, *, gateway_id: str) -> GatewayLoad:
    """
    Raises:
        InvalidRequestError: A name is missing or too long, or a number is out of range.
    """
    require_count("load.workers", len(message.workers), most=MAX_TAIL)
    for field, lengths in (("load.ended_tokens", message.ended_tokens), ("load.cut_tokens", message.cut_tokens)):
        require_count(field, len(lengths), most=MAX_FINISHED)
        for length in lengths:
            require_range(field, length, low=0, high=INT32_MAX)
    return GatewayLoad(
        workers=tuple(map(_load_from_pb, message.workers)),
        ended=tuple(message.ended_tokens),
        cut=tuple(message.cut_tokens),
        tail=TailReport(
            is_settled=message.tail.is_settled,
            workers=_workers_from_pb(message.tail.workers),
            requests=_requests_from_pb(message.tail.requests, gateway_id=gateway_id),
        )
        if message.HasField("tail")
        else None,
        moved=_moved_from_pb(message.moved),
        announced=_announced_from_pb(message.announced),
    )


def _announced_from_pb(messages: Sequence[pb.AnnouncedRequests]) -> tuple[AnnouncedRequests, ...]:
    require_count("load.announced", len(messages), most=MAX_CALLERS)
    for message in messages:
        require_range("load.announced.caller_number", message.caller_number, low=0, high=INT32_MAX)
        require_range("load.announced.request_count", message.request_count, low=0, high=INT32_MAX)
    return tuple(AnnouncedRequests(caller=message.caller_number, count=message.request_count) for message in messages)


def _moved_from_pb(messages: Sequence[pb.MovedRequest]) -> tuple[MovedRequest, ...]:
    require_count("load.moved", len(messages), most=MAX_TAIL)
    for message in messages:
        require_name("load.moved.from_worker_id", message.from_worker_id, least=1)
        require_name("load.moved.to_worker_id", message.to_worker_id, least=1)
        require_range("load.moved.kv_tokens", message.kv_tokens, low=0, high=INT64_MAX)
        require_range("load.moved.age_s", message.age_s, low=0.0, high=INT32_MAX)
    return tuple(
        MovedRequest(
            from_id=WorkerId(message.from_worker_id),
            to_id=WorkerId(message.to_worker_id),
            kv_tokens=message.kv_tokens,
            age_s=message.age_s,
        )
        for message in messages
    )


def tail_to_pb(view: TailView, *, age_s: float) -> pb.Tail:
    return pb.Tail(
        serial=view.serial,
        age_s=age_s,
        workers=map(_worker_to_pb, view.workers),
        requests=map(_request_to_pb, view.requests),
    )


def tail_from_pb(message: pb.Tail) -> TailView:
    """
    Raises:
        InvalidRequestError: A number is out of range.
    """
    return TailView(
        serial=message.serial,
        workers=_workers_from_pb(message.workers),
        requests=_requests_from_pb(message.requests),
    )


def _load_from_pb(message: pb.WorkerLoad) -> WorkerLoad:
    require_name("load.workers.worker_id", message.worker_id, least=1)
    require_range("load.workers.kv_tokens", message.kv_tokens, low=0, high=INT64_MAX)
    require_count("load.workers.running", len(message.running), most=MAX_CAPS)
    for of in message.running:
        require_range("load.workers.running.cap_tokens", of.cap_tokens, low=0, high=INT32_MAX)
        require_count("load.workers.running.counts", len(of.counts), most=MAX_BITS)
        for count in of.counts:
            require_range("load.workers.running.counts", count, low=0, high=INT32_MAX)
    return WorkerLoad(
        worker_id=WorkerId(message.worker_id),
        running=tuple(CappedLoad(cap=of.cap_tokens, counts=tuple(of.counts)) for of in message.running),
        kv_tokens=message.kv_tokens,
    )


def _worker_to_pb(worker: TailWorker) -> pb.TailWorker:
    return pb.TailWorker(
        worker_id=worker.worker_id,
        pace=pb.Pace(
            token_s=[base_s for base_s, _ in worker.pace.tokens_s],
            kv_token_s=[per_kv_s for _, per_kv_s in worker.pace.tokens_s],
            prefill_token_s=worker.pace.prefill_token_s,
        ),
        slot_count=worker.slots,
        kv_tokens=worker.kv_room,
        lendable=worker.lendable,
        training=worker.training,
    )


def _workers_from_pb(messages: Sequence[pb.TailWorker]) -> tuple[TailWorker, ...]:
    require_count("tail.workers", len(messages), most=MAX_TAIL)
    return tuple(map(_worker_from_pb, messages))


def _worker_from_pb(message: pb.TailWorker) -> TailWorker:
    require_name("tail.workers.worker_id", message.worker_id, least=1)
    require_range("tail.workers.slot_count", message.slot_count, low=0, high=INT32_MAX)
    require_range("tail.workers.kv_tokens", message.kv_tokens, low=0, high=INT64_MAX)
    pace = message.pace
    if not 0 < len(pace.token_s) == len(pace.kv_token_s) <= MAX_PACE:
        raise InvalidRequestError(
            f"tail.workers.pace has {len(pace.token_s)} and {len(pace.kv_token_s)} numbers; accepted: equally many, 1 "
            f"to {MAX_PACE}",
            field="tail.workers.pace",
        )
    for seconds in (*pace.token_s, *pace.kv_token_s, pace.prefill_token_s):
        if not 0.0 <= seconds < float("inf"):
            raise InvalidRequestError(
                f"tail.workers.pace has {seconds}; accepted: finite numbers of at least 0", field="tail.workers.pace"
            )
    return TailWorker(
        worker_id=WorkerId(message.worker_id),
        pace=TokenPace(tuple(zip(pace.token_s, pace.kv_token_s, strict=True)), pace.prefill_token_s),
        slots=message.slot_count,
        kv_room=message.kv_tokens,
        lendable=message.lendable,
        training=message.training,
    )


def _request_to_pb(request: TailRequest) -> pb.TailRequest:
    return pb.TailRequest(
        ref=request.ref,
        worker_id=request.worker_id,
        kv_tokens=request.kv_tokens,
        left_tokens=[round(tokens, 1) for tokens in request.left.tokens],
        gateway_id=request.gateway_id,
    )


def _requests_from_pb(messages: Sequence[pb.TailRequest], *, gateway_id: str = "") -> tuple[TailRequest, ...]:
    require_count("tail.requests", len(messages), most=MAX_TAIL)
    return tuple(_request_from_pb(message, gateway_id) for message in messages)


def _request_from_pb(message: pb.TailRequest, gateway_id: str) -> TailRequest:
    require_name("tail.requests.worker_id", message.worker_id, least=1)
    require_range("tail.requests.kv_tokens", message.kv_tokens, low=0, high=INT64_MAX)
    left = tuple(message.left_tokens)
    if len(left) != len(LEVELS) or not all(isfinite(tokens) for tokens in left) or min(left) < 0.0 or _falls(left):
        raise InvalidRequestError(
            f"tail.requests.left_tokens is {list(left)[:16]}; accepted: {len(LEVELS)} finite numbers of at least 0 "
            "that do not fall",
            field="tail.requests.left_tokens",
        )
    return TailRequest(
        gateway_id=gateway_id or message.gateway_id,
        ref=message.ref,
        worker_id=WorkerId(message.worker_id),
        kv_tokens=message.kv_tokens,
        left=Left(left),
    )


def _falls(values: tuple[float, ...]) -> bool:
    return any(before > after for before, after in pairwise(values))
