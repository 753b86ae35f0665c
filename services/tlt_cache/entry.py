"""Metadata of a stored frame. Small, since selection and eviction read thousands of entries."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.hidden import EncodedFrame

_SIZE = struct.Struct("<Q")
_PACKED = struct.Struct("<8sqiiB")
"""Name, policy version, states, response tokens, finished; followed by the request id. Stores put the size before."""

NAMELESS = "0" * 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of the index."""

    sequence: int
    """Order of arrival, across all replicas."""
    request_id: str
    policy_version: int
    tokens: int
    size_bytes: int
    """Bytes that the store uses for the frame."""
    response_tokens: int
    """Length of the response when the frame was captured."""
    finished: bool
    name: str = NAMELESS
    """Name of the payload in the store: 16 hexadecimal digits."""
    shard: int = 0
    """Shard that holds the frame. Sequence numbers of different shards cannot be compared."""

    def packed(self) -> bytes:
        """Encode all fields except those that the store adds: sequence, size and shard."""
        fields = (bytes.fromhex(self.name), self.policy_version, self.tokens, self.response_tokens, self.finished)
        return _PACKED.pack(*fields) + self.request_id.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFrame:
    """A stored frame: its index entry and its bytes as received."""

    entry: Entry
    blob: bytes


def entry_of(frame: EncodedFrame, sequence: int = 0) -> Entry:
    """Build the index entry of a frame from its header."""
    header = frame.header
    return Entry(
        sequence=sequence,
        request_id=header.request_id,
        policy_version=header.policy_version,
        tokens=header.token_count,
        size_bytes=frame.size_bytes,
        response_tokens=header.response_tokens,
        finished=header.finished,
    )


def unpacked(sequence: int, line: bytes, *, shard: int = 0) -> Entry:
    """Decode the output of `Entry.packed`, preceded by a size of 8 bytes."""
    (size_bytes,) = _SIZE.unpack_from(line)
    name, policy_version, tokens, response_tokens, finished = _PACKED.unpack_from(line, _SIZE.size)
    return Entry(
        sequence=sequence,
        request_id=line[_SIZE.size + _PACKED.size :].decode(),
        policy_version=policy_version,
        tokens=tokens,
        size_bytes=size_bytes,
        response_tokens=response_tokens,
        finished=bool(finished),
        name=name.hex(),
        shard=shard,
    )


def response_lengths(entries: Iterable[Entry]) -> dict[str, int]:
    """
    Return the length of each response as far as known, in tokens.

    A frame holds the length of its response at capture; the longest over all frames of a response is the latest.
    """
    lengths: dict[str, int] = {}
    for entry in entries:
        lengths[entry.request_id] = max(lengths.get(entry.request_id, 0), entry.response_tokens)
    return lengths
