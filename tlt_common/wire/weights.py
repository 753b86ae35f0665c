"""Weights updates and tensor chunks <-> tlt.common.v1."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol, TypeVar

from tlt_common._generated.tlt.common.v1 import common_pb2 as pb
from tlt_common._generated.tlt.rollout.v1.rollout_pb2 import UpdateWeightsHeader, UpdateWeightsRequest
from tlt_common._generated.tlt.worker.v1.worker_pb2 import StageWeightsHeader, StageWeightsRequest, WorkerInfo
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError
from tlt_common.wire.convert import Codec, Field, Parts, Sent, Unsent, either, pair

KEY_CHARACTERS = 128
"""Maximum length of an update's idempotency key."""


class _Carrying(Protocol):
    """A message that carries a piece of a tensor."""

    @property
    def tensor(self) -> pb.TensorChunk: ...


Carrier = TypeVar("Carrier", bound=_Carrying)
Header = TypeVar("Header", WeightsUpdate, StageOrder)


def with_tensor(kind: type[Carrier], chunk: TensorChunk) -> Carrier:
    """Return a message that carries this. Passing it to the message's constructor would copy the data once more."""
    message = kind()
    part = message.tensor
    part.name, part.dtype, part.offset_bytes, part.data = chunk.name, chunk.dtype, chunk.offset_bytes, chunk.data
    part.shape.extend(chunk.shape)
    return message


def source_to_pb(uri: str | None) -> pb.WeightsSource | None:
    """Return the source; None means that tensors follow in the stream."""
    return None if uri is None else pb.WeightsSource(uri=uri)


def source_from_pb(message: UpdateWeightsHeader | StageWeightsHeader | WorkerInfo) -> str | None:
    return message.source.uri if message.HasField("source") else None


_, tensor_from_pb = pair(TensorChunk, pb.TensorChunk)
release_to_pb, _release_from_pb = pair(ReleaseId, pb.ReleaseId, version="policy_version")


def release_from_pb(message: pb.ReleaseId, version: int = 0) -> ReleaseId:
    """Decode a release; one that is unset has this version and no key."""
    return _release_from_pb(message) if message.ByteSize() else ReleaseId(version=PolicyVersion(version))


def _key(path: str, key: str) -> str:
    if len(key) > KEY_CHARACTERS:
        raise InvalidRequestError(f"{path} has {len(key)} characters; the maximum is {KEY_CHARACTERS}", field=path)
    return key


_URI = Parts({"source": lambda header: source_to_pb(header.uri)}, lambda _, header: source_from_pb(header))
pair(
    WeightsUpdate,
    UpdateWeightsHeader,
    version="policy_version",
    uri=_URI,
    key=Field(read=_key),
    base="base_version",
    adapter_name=Unsent(),  # gRPC calls name no model
)
pair(
    StageOrder,
    StageWeightsHeader,
    release=Parts(
        {"release": lambda order: release_to_pb(order.release), "policy_version": lambda order: order.release.version},
        lambda _, header: release_from_pb(header.release, header.policy_version),
    ),
    uri=_URI,
)
_UPDATE: Codec[WeightsUpdate | TensorChunk, UpdateWeightsRequest] = either(
    UpdateWeightsRequest, header=WeightsUpdate, tensor=TensorChunk
)
_STAGE: Codec[StageOrder | TensorChunk, StageWeightsRequest] = either(
    StageWeightsRequest, header=StageOrder, tensor=TensorChunk
)
_update_to_pb, _update_from_pb = _UPDATE
_stage_to_pb, _stage_from_pb = _STAGE


def update_to_pb(part: WeightsUpdate | TensorChunk) -> UpdateWeightsRequest:
    return with_tensor(UpdateWeightsRequest, part) if isinstance(part, TensorChunk) else _update_to_pb(part)


def stage_to_pb(part: StageOrder | TensorChunk) -> StageWeightsRequest:
    return with_tensor(StageWeightsRequest, part) if isinstance(part, TensorChunk) else _stage_to_pb(part)


async def update_and_tensors(
    messages: AsyncIterator[UpdateWeightsRequest],
) -> tuple[WeightsUpdate, AsyncIterator[TensorChunk]]:
    """
    Decode an update: its header, and an iterator over the tensors that follow.

    Raises:
        InvalidRequestError: The header is missing or invalid. The iterator raises it for a second header.
    """
    return await _split(messages, _update_from_pb, WeightsUpdate)


async def order_and_tensors(
    messages: AsyncIterator[StageWeightsRequest],
) -> tuple[StageOrder, AsyncIterator[TensorChunk]]:
    """
    Decode an order to stage weights: its header, and an iterator over the tensors that follow.

    Raises:
        InvalidRequestError: The header is missing. The iterator raises it for a second header.
    """
    return await _split(messages, _stage_from_pb, StageOrder)


async def _split(
    messages: AsyncIterator[Sent], decode: Callable[[Sent], Header | TensorChunk], kind: type[Header]
) -> tuple[Header, AsyncIterator[TensorChunk]]:
    first = await anext(messages, None)
    header = None if first is None else decode(first)
    if not isinstance(header, kind):
        raise InvalidRequestError("the first message is not a header; send a header, then tensors", field="header")

    async def tensors() -> AsyncIterator[TensorChunk]:
        async for message in messages:
            if isinstance(part := decode(message), (WeightsUpdate, StageOrder)):
                raise InvalidRequestError(
                    "the stream has a second header; send one, as the first message", field="header"
                )
            yield part

    return header, tensors()
