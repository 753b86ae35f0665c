"""Weights updates and tensor chunks <-> tlt.common.v1."""

from collections.abc import AsyncIterator
from typing import TypeAlias, TypeVar

from tlt_common._generated.tlt.common.v1 import common_pb2 as pb
from tlt_common._generated.tlt.rollout.v1.rollout_pb2 import UpdateWeightsHeader, UpdateWeightsRequest
from tlt_common._generated.tlt.worker.v1.worker_pb2 import (
    FetchWeightsEnd,
    StageWeightsHeader,
    StageWeightsRequest,
    WorkerInfo,
)
from tlt_common._generated.tlt.worker.v1.worker_pb2 import (
    SpoolFile as SpoolFileMessage,
)
from tlt_common._generated.tlt.worker.v1.worker_pb2 import (
    WrittenPiece as WrittenPieceMessage,
)
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import (
    ReleaseEnd,
    ReleaseId,
    SpoolFile,
    StageOrder,
    TensorChunk,
    WeightsUpdate,
    WrittenPiece,
)
from tlt_common.errors import InvalidRequestError

KEY_CHARACTERS = 128
"""Maximum length of an update's idempotency key."""

StagePart: TypeAlias = TensorChunk | WrittenPiece | ReleaseEnd
"""What follows an order to stage."""


def write_tensor(chunk: TensorChunk, message: pb.TensorChunk) -> None:
    """Fill in a part of a message. Passing the part to the message's constructor would copy the data once more."""
    message.name, message.dtype, message.offset_bytes = chunk.name, chunk.dtype, chunk.offset_bytes
    message.shape.extend(chunk.shape)
    message.data = chunk.data


def tensor_from_pb(message: pb.TensorChunk) -> TensorChunk:
    return TensorChunk(
        name=message.name,
        dtype=message.dtype,
        shape=tuple(message.shape),
        offset_bytes=message.offset_bytes,
        data=message.data,
    )


def file_to_pb(file: SpoolFile) -> SpoolFileMessage:
    return SpoolFileMessage(path=file.path, device=file.device, inode=file.inode)


def file_from_pb(message: SpoolFileMessage) -> SpoolFile:
    return SpoolFile(path=message.path, device=message.device, inode=message.inode)


def piece_to_pb(piece: WrittenPiece) -> WrittenPieceMessage:
    return WrittenPieceMessage(
        name=piece.name,
        dtype=piece.dtype,
        shape=piece.shape,
        offset_bytes=piece.offset_bytes,
        size_bytes=piece.size_bytes,
    )


def piece_from_pb(message: WrittenPieceMessage) -> WrittenPiece:
    return WrittenPiece(
        name=message.name,
        dtype=message.dtype,
        shape=tuple(message.shape),
        offset_bytes=message.offset_bytes,
        size_bytes=message.size_bytes,
    )


def end_to_pb(end: ReleaseEnd) -> FetchWeightsEnd:
    return FetchWeightsEnd(piece_count=end.pieces, digest=end.digest)


def end_from_pb(message: FetchWeightsEnd) -> ReleaseEnd:
    return ReleaseEnd(pieces=message.piece_count, digest=message.digest)


def source_to_pb(uri: str | None) -> pb.WeightsSource | None:
    """Return the source; None means that tensors follow in the stream."""
    return None if uri is None else pb.WeightsSource(uri=uri)


def source_from_pb(message: UpdateWeightsHeader | StageWeightsHeader | WorkerInfo) -> str | None:
    return message.source.uri if message.HasField("source") else None


def release_to_pb(release: ReleaseId) -> pb.ReleaseId:
    return pb.ReleaseId(policy_version=release.version, key=release.key, digest=release.digest)


def release_from_pb(message: pb.ReleaseId, version: int = 0) -> ReleaseId:
    """Decode a release; one that is unset has this version and no key."""
    known = message.policy_version if message.ByteSize() else version
    return ReleaseId(version=PolicyVersion(known), key=message.key, digest=message.digest)


def update_from_pb(header: UpdateWeightsHeader) -> WeightsUpdate:
    """
    Decode the header of an update.

    Raises:
        InvalidRequestError: The key is too long.
    """
    if len(header.key) > KEY_CHARACTERS:
        raise InvalidRequestError(
            f"header.key has {len(header.key)} characters; the maximum is {KEY_CHARACTERS}", field="header.key"
        )
    return WeightsUpdate(
        version=PolicyVersion(header.policy_version),
        uri=source_from_pb(header),
        key=header.key,
        size_bytes=header.size_bytes,
        base=PolicyVersion(header.base_version) if header.HasField("base_version") else None,
    )


def order_from_pb(header: StageWeightsHeader) -> StageOrder:
    return StageOrder(
        release=release_from_pb(header.release, header.policy_version),
        uri=source_from_pb(header),
        peers=tuple(header.peers),
        joining=header.joining,
        file=file_from_pb(header.file) if header.HasField("file") else None,
        base=release_from_pb(header.base) if header.HasField("base") else None,
    )


async def update_and_tensors(
    messages: AsyncIterator[UpdateWeightsRequest],
) -> tuple[WeightsUpdate, AsyncIterator[TensorChunk]]:
    """
    Decode an update: its header, and an iterator over the tensors that follow.

    Raises:
        InvalidRequestError: The header is missing or invalid. The iterator raises it for a second header.
    """
    first = _checked(await anext(messages, None))
    return update_from_pb(first.header), tensors_of(_parts(messages))


async def order_and_parts(
    messages: AsyncIterator[StageWeightsRequest],
) -> tuple[StageOrder, AsyncIterator[StagePart]]:
    """
    Decode an order to stage weights: its header, and an iterator over what follows.

    Raises:
        InvalidRequestError: The header is missing. The iterator raises it for a second header.
    """
    first = _checked(await anext(messages, None))
    return order_from_pb(first.header), _parts(messages)


async def tensors_of(parts: AsyncIterator[StagePart]) -> AsyncIterator[TensorChunk]:
    """
    Yield tensors with their content.

    Raises:
        InvalidRequestError: Something else follows.
    """
    async for part in parts:
        if not isinstance(part, TensorChunk):
            raise InvalidRequestError("a piece or end follows a header without a file", field="part")
        yield part


async def written_of(parts: AsyncIterator[StagePart]) -> AsyncIterator[WrittenPiece | ReleaseEnd]:
    """
    Yield what is in a file.

    Raises:
        InvalidRequestError: Something else follows.
    """
    async for part in parts:
        if isinstance(part, TensorChunk):
            raise InvalidRequestError("a tensor follows a header with a file; send pieces, then end", field="part")
        yield part


Message = TypeVar("Message", UpdateWeightsRequest, StageWeightsRequest)


def _checked(first: Message | None) -> Message:
    if first is not None and first.WhichOneof("part") is None:
        raise InvalidRequestError("part is not set; accepted: header or tensor", field="part")
    if first is None or first.WhichOneof("part") != "header":
        raise InvalidRequestError("the first message is not a header; send a header, then tensors", field="header")
    return first


async def _parts(
    messages: AsyncIterator[UpdateWeightsRequest] | AsyncIterator[StageWeightsRequest],
) -> AsyncIterator[StagePart]:
    async for message in messages:
        match message.WhichOneof("part"):
            case "tensor":
                yield tensor_from_pb(message.tensor)
            case "header":
                raise InvalidRequestError(
                    "the stream has a second header; send one, as the first message", field="header"
                )
            case "piece" if isinstance(message, StageWeightsRequest):
                yield piece_from_pb(message.piece)
            case "end" if isinstance(message, StageWeightsRequest):
                yield end_from_pb(message.end)
            case _:
                raise InvalidRequestError("part is not set; accepted: header or tensor", field="part")
