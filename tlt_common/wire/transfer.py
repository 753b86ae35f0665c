"""Process groups, collected tensors and changes of weights <-> tlt.worker.v1."""

from collections.abc import AsyncIterator, Iterator

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import Broadcast, ChangesPart, Collected, GroupMember, TensorForm
from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.weights.checkpoint import PIECE_BYTES
from tlt_common.wire.weights import release_from_pb, release_to_pb, source_to_pb, tensor_from_pb, write_tensor


def group_to_pb(member: GroupMember) -> pb.JoinGroupRequest:
    return pb.JoinGroupRequest(
        group=pb.ProcessGroup(
            name=member.name,
            backend=member.backend,
            master_address=member.master_address,
            master_port=member.master_port,
            rank=member.rank,
            world_size=member.world_size,
        )
    )


def group_from_pb(message: pb.JoinGroupRequest) -> GroupMember:
    """
    Raises:
        InvalidRequestError: A field of the group is invalid.
    """
    group = message.group
    return GroupMember(
        name=group.name,
        backend=group.backend,
        master_address=group.master_address,
        master_port=group.master_port,
        rank=group.rank,
        world_size=group.world_size,
    ).checked()


def broadcast_to_pb(broadcast: Broadcast) -> pb.ReceiveTensorsRequest:
    return pb.ReceiveTensorsRequest(
        group=broadcast.group,
        tensors=[pb.TensorForm(name=form.name, dtype=form.dtype, shape=form.shape) for form in broadcast.tensors],
        flat=broadcast.flat,
    )


def broadcast_from_pb(message: pb.ReceiveTensorsRequest) -> Broadcast:
    """
    Raises:
        InvalidRequestError: A tensor is invalid.
    """
    return Broadcast(
        group=message.group,
        tensors=tuple(
            TensorForm(name=form.name, dtype=form.dtype, shape=tuple(form.shape)) for form in message.tensors
        ),
        flat=message.flat,
    ).checked()


def collected_to_pb(collected: Collected) -> pb.Collected:
    return pb.Collected(
        tensor_count=collected.tensors,
        missing_count=collected.missing,
        first_missing=collected.first_missing,
        part_count=collected.parts,
    )


def collected_from_pb(message: pb.Collected) -> Collected:
    return Collected(
        tensors=message.tensor_count,
        missing=message.missing_count,
        first_missing=message.first_missing,
        parts=message.part_count,
    )


def part_to_pb(part: ChangesPart | None) -> pb.ChangesPart | None:
    return None if part is None else pb.ChangesPart(base_version=part.base, number=part.number)


def fetch_from_pb(message: pb.FetchCollectedRequest) -> ChangesPart | None:
    return _part(message.next) if message.HasField("next") else None


def content_to_pb(content: bytes, part: ChangesPart | None) -> Iterator[pb.CollectTensorsRequest]:
    """Split pickled tensors into messages."""
    yield pb.CollectTensorsRequest(part=part_to_pb(part))
    for begin in range(0, len(content), PIECE_BYTES):
        yield pb.CollectTensorsRequest(piece=content[begin : begin + PIECE_BYTES])


async def part_and_content(
    messages: AsyncIterator[pb.CollectTensorsRequest],
) -> tuple[ChangesPart | None, AsyncIterator[bytes]]:
    """Decode a stream of pickled tensors; say which part of changes they are, if they are changes."""
    first = await anext(messages, pb.CollectTensorsRequest())

    async def pieces() -> AsyncIterator[bytes]:
        yield first.piece
        async for message in messages:
            yield message.piece

    return _part(first.part) if first.HasField("part") else None, pieces()


def _part(message: pb.ChangesPart) -> ChangesPart:
    return ChangesPart(base=PolicyVersion(message.base_version), number=message.number)


def tensor_to_pb(chunk: TensorChunk) -> pb.FetchCollectedResponse:
    message = pb.FetchCollectedResponse()
    write_tensor(chunk, message.tensor)
    return message


def fetched_tensor(message: pb.FetchCollectedResponse) -> TensorChunk:
    return tensor_from_pb(message.tensor)


def base_to_pb(base: ReleaseId, uri: str | None) -> pb.FoldWeightsRequest:
    """Encode what changes are of, and where they are; None: they follow."""
    return pb.FoldWeightsRequest(header=pb.FoldWeightsHeader(base=release_to_pb(base), source=source_to_pb(uri)))


def change_to_pb(chunk: TensorChunk) -> pb.FoldWeightsRequest:
    message = pb.FoldWeightsRequest()
    write_tensor(chunk, message.tensor)
    return message


async def base_and_changes(
    messages: AsyncIterator[pb.FoldWeightsRequest],
) -> tuple[ReleaseId, str | None, AsyncIterator[TensorChunk]]:
    """
    Decode changes: the release that they are of, where they are, and an iterator over those that follow.

    Raises:
        InvalidRequestError: The header is missing. The iterator raises it for a second header.
    """
    first = await anext(messages, pb.FoldWeightsRequest())
    if not first.HasField("header"):
        raise InvalidRequestError("the first message has no header", field="header")

    async def changes() -> AsyncIterator[TensorChunk]:
        async for message in messages:
            if not message.HasField("tensor"):
                raise InvalidRequestError("a message after the first has no tensor", field="tensor")
            yield tensor_from_pb(message.tensor)

    uri = first.header.source.uri if first.header.HasField("source") else None
    return release_from_pb(first.header.base), uri, changes()


def folded_to_pb(chunk: TensorChunk) -> pb.FoldWeightsResponse:
    message = pb.FoldWeightsResponse()
    write_tensor(chunk, message.tensor)
    return message


def folded_tensor(message: pb.FoldWeightsResponse) -> TensorChunk:
    return tensor_from_pb(message.tensor)
