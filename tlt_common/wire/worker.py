"""tlt.worker.v1: calls from gateways to one worker."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from typing import TypeAlias

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import WorkerServiceServicer as Servicer
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import WorkerServiceStub as Stub
from tlt_common._generated.tlt.worker.v1.worker_pb2_grpc import add_WorkerServiceServicer_to_server as add_servicer
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.fleet import WatchDemand, WatchReport, WorkerInfo
from tlt_common.domain.ids import RequestId
from tlt_common.domain.pause import Pause
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.requests import Failure, HangUp, Part, Start
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.weights import ReleaseEnd, ServedRelease, TensorChunk
from tlt_common.errors import BY_REASON, InvalidRequestError, TltError
from tlt_common.wire.convert import Codec, Field, Parts, Unsent, either, pair
from tlt_common.wire.generation import chunk_from_pb, chunk_to_pb, prompt_from_pb, prompt_to_pb
from tlt_common.wire.rules import named, taken
from tlt_common.wire.weights import (
    order_and_tensors,
    release_from_pb,
    release_to_pb,
    source_from_pb,
    source_to_pb,
    stage_to_pb,
    tensor_from_pb,
    with_tensor,
)

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["WorkerService"].full_name
GENERATE_MANY: str = f"/{SERVICE_NAME}/GenerateMany"
"""The method, as gRPC names it in spans."""
METHODS: tuple[str, ...] = tuple(pb.DESCRIPTOR.services_by_name["WorkerService"].methods_by_name)

__all__ = [
    "GENERATE_MANY",
    "METHODS",
    "SERVICE_NAME",
    "Fetched",
    "Servicer",
    "Stub",
    "add_servicer",
    "announced_from_pb",
    "announced_to_pb",
    "demand_from_pb",
    "demand_to_pb",
    "demands_from_pb",
    "fetched_from_pb",
    "fetched_to_pb",
    "info_from_pb",
    "info_to_pb",
    "kept_from_pb",
    "kept_to_pb",
    "order_and_tensors",
    "parts_from_pb",
    "parts_to_pb",
    "pb",
    "release_from_pb",
    "release_to_pb",
    "report_from_pb",
    "report_to_pb",
    "request_from_pb",
    "request_to_pb",
    "requests_from_pb",
    "stage_to_pb",
    "tensor_from_pb",
    "with_tensor",
]


Fetched: TypeAlias = TensorChunk | ReleaseEnd
_FETCH: Codec[Fetched, pb.FetchWeightsResponse] = either(pb.FetchWeightsResponse, tensor=TensorChunk, end=ReleaseEnd)
_fetched_to_pb, fetched_from_pb = _FETCH


def fetched_to_pb(part: Fetched) -> pb.FetchWeightsResponse:
    return with_tensor(pb.FetchWeightsResponse, part) if isinstance(part, TensorChunk) else _fetched_to_pb(part)


def request_to_pb(request: Start | HangUp) -> pb.GenerateManyRequest:
    if isinstance(request, HangUp):
        return pb.GenerateManyRequest(hang_up=request.request_id)
    return pb.GenerateManyRequest(start=_start_to_pb(request.prompt, request.traceparent))


def announced_to_pb(owner: str, prompts: Iterable[Prompt], samples: int = 1) -> pb.AnnounceRequest:
    return pb.AnnounceRequest(owner=owner, responses=map(_start_to_pb, prompts), samples_per_prompt=samples)


def announced_from_pb(message: pb.AnnounceRequest) -> tuple[list[Prompt], int]:
    """
    Return the prompts, and the number of responses to each.

    Raises:
        InvalidRequestError: A prompt cannot be decoded.
    """
    return [_prompt_from_pb(start) for start in message.responses], max(1, message.samples_per_prompt)


def _start_to_pb(prompt: Prompt, traceparent: str = "") -> pb.Start:
    return pb.Start(
        prompt=prompt_to_pb(prompt),
        traceparent=traceparent,
        owner=prompt.owner,
        cache_key=prompt.cache_key,
        keep_key=prompt.keep_key,
    )


def _prompt_from_pb(start: pb.Start) -> Prompt:
    return prompt_from_pb(start.prompt, owner=start.owner, cache_key=start.cache_key, keep_key=start.keep_key)


def request_from_pb(message: pb.GenerateManyRequest) -> Start | HangUp | Failure:
    """
    Decode a message. A prompt that cannot be decoded is a `Failure`, since it does not concern the other requests.

    Raises:
        InvalidRequestError: The message is empty.
    """
    match message.WhichOneof("part"):
        case "start":
            try:
                return Start(prompt=_prompt_from_pb(message.start), traceparent=message.start.traceparent)
            except InvalidRequestError as error:
                return Failure(request_id=RequestId(message.start.prompt.request_id), error=error)
        case "hang_up":
            return HangUp(request_id=RequestId(message.hang_up))
        case _:
            raise InvalidRequestError("part is not set; accepted: start or hang_up", field="part")


async def requests_from_pb(
    messages: AsyncIterator[pb.GenerateManyRequest],
) -> AsyncGenerator[Start | HangUp | Failure, None]:
    """Decode a stream, as `request_from_pb` does."""
    async for message in messages:
        yield request_from_pb(message)


def parts_to_pb(parts: Iterable[Part]) -> pb.GenerateManyResponse:
    message = pb.GenerateManyResponse()
    for part in parts:
        if isinstance(part, TokenChunk):
            message.chunks.append(chunk_to_pb(part))
        else:
            error = part.error
            message.failures.add(
                request_id=part.request_id, reason=error.reason, message=error.message, field=error.field
            )
    return message


def parts_from_pb(message: pb.GenerateManyResponse) -> Iterator[Part]:
    """Yield the chunks, then the failures."""
    for chunk in message.chunks:
        yield chunk_from_pb(chunk)
    for failure in message.failures:
        kind = BY_REASON.get(failure.reason, TltError)
        yield Failure(request_id=RequestId(failure.request_id), error=kind(failure.message, field=failure.field))


def kept_to_pb(chunk: TokenChunk | None) -> pb.TakeKeptResponse:
    return pb.TakeKeptResponse(chunk=chunk_to_pb(chunk) if chunk is not None else None)


def kept_from_pb(message: pb.TakeKeptResponse) -> TokenChunk | None:
    return chunk_from_pb(message.chunk) if message.HasField("chunk") else None


def _served(_: str, message: pb.WorkerInfo) -> ServedRelease | None:
    if not message.HasField("release"):
        return None
    base = release_from_pb(message.adapter_base) if message.HasField("adapter_base") else None
    return ServedRelease(
        id=release_from_pb(message.release),
        uri=source_from_pb(message),
        adapter_base=base,
        adapter_name=message.adapter_name,
    )


pair(Pause, pb.Pause, left_s=Field(read=taken(lambda left_s: left_s if left_s > 0 else 0.0)))
pair(ArmWindow, pb.ArmRounds, median_reward=Unsent(0.0), drafted_tokens=Unsent())
info_to_pb, info_from_pb = pair(
    WorkerInfo,
    pb.WorkerInfo,
    release=Parts(
        {
            "release": lambda info: release_to_pb(info.release.id) if info.release else None,
            "source": lambda info: source_to_pb(info.release.uri) if info.release else None,
            "adapter_base": lambda info: (
                release_to_pb(base) if info.release and (base := info.release.adapter_base) else None
            ),
            "adapter_name": lambda info: info.release.adapter_name if info.release else None,
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
