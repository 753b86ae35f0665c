"""What is known of a kept frame without its bytes. Small: choosing reads all of them."""

import struct
from dataclasses import dataclass

from tlt_common.domain.hidden import HiddenFrame

_PACKED = struct.Struct("<qiiiB")
"""Policy version, states, bytes, response tokens, finished; the request id follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the index."""

    sequence: int
    """Order of arrival, over all replicas."""
    request_id: str
    policy_version: int
    tokens: int
    size_bytes: int
    response_tokens: int
    """Of the response when the frame was made."""
    finished: bool

    def packed(self) -> bytes:
        """Write everything but the sequence, which is the key it is kept under."""
        return (
            _PACKED.pack(self.policy_version, self.tokens, self.size_bytes, self.response_tokens, self.finished)
            + self.request_id.encode()
        )


def entry_of(frame: HiddenFrame, sequence: int = 0) -> Entry:
    """Describe a frame."""
    return Entry(
        sequence=sequence,
        request_id=frame.request_id,
        policy_version=frame.policy_version,
        tokens=frame.token_count,
        size_bytes=frame.size_bytes,
        response_tokens=frame.response_tokens,
        finished=frame.finished,
    )


def unpacked(sequence: int, line: bytes) -> Entry:
    """Read what `Entry.packed` wrote."""
    policy_version, tokens, size_bytes, response_tokens, finished = _PACKED.unpack_from(line)
    return Entry(
        sequence=sequence,
        request_id=line[_PACKED.size :].decode(),
        policy_version=policy_version,
        tokens=tokens,
        size_bytes=size_bytes,
        response_tokens=response_tokens,
        finished=bool(finished),
    )


def response_lengths(entries: tuple[Entry, ...]) -> dict[str, int]:
    """
    Return the length of each response, as far as it is known.

    A frame says how long its response was when the frame was made; later frames of the same response know better.
    """
    lengths: dict[str, int] = {}
    for entry in entries:
        lengths[entry.request_id] = max(lengths.get(entry.request_id, 0), entry.response_tokens)
    return lengths
