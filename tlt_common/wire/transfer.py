"""Process groups, collected tensors and changes of weights <-> tlt.worker.v1."""

from collections.abc import AsyncIterator, Iterator

from tlt_common._generated.tlt.worker.v1 import worker_pb2 as pb
from tlt_common.domain.transfer import Broadcast, ChangesPart, Collected, GroupMember
from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import InvalidRequestError
from tlt_common.weights.checkpoint import PIECE_BYTES
from tlt_common.wire.convert import pair
from tlt_common.wire.weights import release_from_pb, release_to_pb, source_to_pb, tensor_from_pb

_member_to_pb, _member_from_pb = pair(GroupMember, pb.ProcessGroup)
broadcast_to_pb, _broadcast_from_pb = pair(Broadcast, pb.ReceiveTensorsRequest)
collected_to_pb, collected_from_pb = pair(Collected, pb.Collected)
_part_to_pb, _part_from_pb = pair(ChangesPart, pb.ChangesPart, base="base_version")


def group_to_pb(member: GroupMember) -> pb.JoinGroupRequest:
    return pb.JoinGroupRequest(group=_member_to_pb(member))


def group_from_pb(message: pb.JoinGroupRequest) -> GroupMember:
    """
    Raises:
        InvalidRequestError: A field of the group is invalid.
    """
    return _member_from_pb(message.group).checked()


def broadcast_from_pb(message: pb.ReceiveTensorsRequest) -> Broadcast:
    """
    Raises:
        InvalidRequestError: A tensor is invalid.
    """
    return _broadcast_from_pb(message).checked()


def part_to_pb(part: ChangesPart | None) -> pb.ChangesPart | None:
    return None if part is None else _part_to_pb(part)


def fetch_from_pb(message: pb.FetchCollectedRequest) -> ChangesPart | None:
    return _part_from_pb(message.next) if message.HasField("next") else None


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

    return _part_from_pb(first.part) if first.HasField("part") else None, pieces()


def adapter_to_pb(source: str | bytes) -> Iterator[pb.ReadAdapterRequest]:
    """Encode which adapter to read: a URI, or pickled tensors."""
    if isinstance(source, str):
        yield pb.ReadAdapterRequest(source=source_to_pb(source))
        return
    for begin in range(0, len(source), PIECE_BYTES):
        yield pb.ReadAdapterRequest(piece=source[begin : begin + PIECE_BYTES])


async def adapter_from_pb(messages: AsyncIterator[pb.ReadAdapterRequest]) -> str | AsyncIterator[bytes]:
    """Decode which adapter to read: a URI, or pieces of pickled tensors."""
    first = await anext(messages, pb.ReadAdapterRequest())

    async def pieces() -> AsyncIterator[bytes]:
        yield first.piece
        async for message in messages:
            yield message.piece

    return first.source.uri if first.HasField("source") else pieces()


def base_to_pb(base: ReleaseId, uri: str | None) -> pb.FoldWeightsRequest:
    """Encode what changes are of, and where they are; None: they follow."""
    return pb.FoldWeightsRequest(header=pb.FoldWeightsHeader(base=release_to_pb(base), source=source_to_pb(uri)))


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
