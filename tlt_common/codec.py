"""
Hidden frames <-> one blob of bytes, for stores and files.

Layout, little-endian: a fixed header (`_HEADER`), the request id in UTF-8, the token ids as int32, the states as they
are. The header says how long each part is, so a blob that was cut or grew is refused, never half read.
"""

import struct
import sys
from array import array

from tlt_common.domain.hidden import ELEMENT_BYTES, HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

MAGIC = b"TLTH"
VERSION = 1

_HEADER = struct.Struct("<4sHBBqiiiiII")
"""Magic, version, element type, finished, policy version, start, prompt tokens, response tokens, hidden size,
bytes of the request id, number of token ids."""

_DTYPES = tuple(sorted(ELEMENT_BYTES))
_ID_BYTES = 4


def encode(frame: HiddenFrame) -> bytes:
    """Write a frame as one blob. Two equal frames give equal bytes."""
    request_id = frame.request_id.encode()
    header = _HEADER.pack(
        MAGIC,
        VERSION,
        _DTYPES.index(frame.dtype),
        frame.finished,
        frame.policy_version,
        frame.start,
        frame.prompt_tokens,
        frame.response_tokens,
        frame.hidden_size,
        len(request_id),
        len(frame.token_ids),
    )
    return b"".join((header, request_id, _ids_to_bytes(frame.token_ids), frame.hidden))


def decode(blob: bytes | memoryview) -> HiddenFrame:
    """
    Read a frame written by `encode`.

    Raises:
        InvalidRequestError: These are not the bytes of one frame; says what is wrong with them.
    """
    view = memoryview(blob)
    if len(view) < _HEADER.size:
        raise _corrupt(f"has {len(view)} bytes; accepted: at least the {_HEADER.size} of the header")
    magic, version, dtype, finished, policy, start, prompt, response, size, name_bytes, id_count = _HEADER.unpack_from(
        view
    )
    if magic != MAGIC:
        raise _corrupt(f"begins with {magic!r}; accepted: {MAGIC!r}")
    if version != VERSION:
        raise _corrupt(f"has version {version}; accepted: {VERSION}")
    if dtype >= len(_DTYPES) or finished > 1:
        raise _corrupt(f"has element type {dtype} and finished {finished}; accepted: 0-{len(_DTYPES) - 1} and 0-1")
    ids_at = _HEADER.size + name_bytes
    hidden_at = ids_at + id_count * _ID_BYTES
    # Checked before anything is allocated: a broken header may announce gigabytes.
    expected = hidden_at + (id_count - 1) * size * ELEMENT_BYTES[_DTYPES[dtype]]
    if id_count < 1 or size < 1 or len(view) != expected:
        raise _corrupt(f"has {len(view)} bytes for {id_count} ids of states of {size}; accepted: {expected}")
    return HiddenFrame(
        request_id=RequestId(_text(view[_HEADER.size : ids_at])),
        policy_version=PolicyVersion(policy),
        start=start,
        token_ids=_ids_from_bytes(view[ids_at:hidden_at]),
        hidden_size=size,
        dtype=_DTYPES[dtype],
        hidden=bytes(view[hidden_at:]),
        prompt_tokens=prompt,
        response_tokens=response,
        finished=bool(finished),
    )


def _ids_to_bytes(token_ids: tuple[int, ...]) -> bytes:
    ids = array("i", token_ids)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def _ids_from_bytes(view: memoryview) -> tuple[int, ...]:
    ids = array("i")
    ids.frombytes(view)
    if sys.byteorder == "big":
        ids.byteswap()
    return tuple(ids)


def _text(view: memoryview) -> str:
    try:
        return bytes(view).decode()
    except UnicodeDecodeError as error:
        raise _corrupt("has a request id that is not UTF-8") from error


def _corrupt(what: str) -> InvalidRequestError:
    return InvalidRequestError(f"frame blob {what}", field="frame")
