"""
Hidden-state frames as bytes: encoded once in the scheduler, decoded once in the trainer.

Layout, little-endian: a fixed header (`_HEADER`), the request id in UTF-8, zeros up to a multiple of 4, the numbers of
the layers and the token ids as int32, and the states in the engine's element type, or in 8 bits with their scales. The
header contains the length of every part, so that links, queues and stores can check and describe a frame without
reading token ids or states.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence

from tlt_common.domain.hidden import EncodedFrame, FrameHeader, HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

MAGIC = b"TLTH"
VERSION = 4

_HEADER = struct.Struct("<4sHBBqQiiiiIII")
"""Magic, version, element type, finished, policy version, prompt hash, start, prompt tokens, response tokens, hidden
size, bytes of the request id, number of layers, number of states."""

_INT_BYTES = 4

_ALIGNMENT = 4
"""Alignment of token ids and states in bytes, so that both can be used in place."""

_DTYPES = ("BF16", "F16", "F32", "F8_E4M3")
"""Types by their number in the header. Numbers are never reused."""


def encode(
    header: FrameHeader, token_ids: Sequence[int], states: Iterable[bytes | bytearray | memoryview]
) -> EncodedFrame:
    """
    Encode a frame. Equal frames give equal bytes.

    Args:
        header: Describes token ids and states.
        token_ids: n + 1 ids for n states.
        states: The states, in any number of pieces; copied once.

    Raises:
        InvalidRequestError: The number of token ids or states does not match the header.
    """
    if len(token_ids) != header.token_count + 1:
        raise InvalidRequestError(
            f"frame.token_ids has {len(token_ids)} ids; accepted: {header.token_count + 1}", field="frame.token_ids"
        )
    name = header.request_id.encode()
    fixed = _HEADER.pack(
        MAGIC,
        VERSION,
        _DTYPES.index(header.dtype),
        header.finished,
        header.policy_version,
        header.prompt_hash,
        header.start,
        header.prompt_tokens,
        header.response_tokens,
        header.hidden_size,
        len(name),
        len(header.layers),
        header.token_count,
    )
    numbers = array("i", (*header.layers, *token_ids)).tobytes()
    blob = b"".join((fixed, name, bytes(_padding(len(name))), numbers, *states))
    payload_at = _payload_at(len(name), len(header.layers))
    if len(blob) != payload_at + header.payload_bytes:
        raise InvalidRequestError(
            f"frame.hidden has {len(blob) - payload_at - header.token_id_bytes} bytes; accepted: "
            f"{header.hidden_bytes} for {header.token_count} states of {header.hidden_size} {header.dtype}",
            field="frame.hidden",
        )
    return EncodedFrame(header=header, blob=blob)


def read(blob: bytes) -> EncodedFrame:
    """
    Read the header of a frame and check all sizes, without reading token ids or states.

    Raises:
        InvalidRequestError: The bytes are not a valid frame; the message names the defect.
    """
    if len(blob) < _HEADER.size:
        raise _corrupt(f"has {len(blob)} bytes; accepted: at least the {_HEADER.size} of the header")
    magic, version, dtype, finished, policy, prompt_hash, *sizes = _HEADER.unpack_from(blob)
    start, prompt, response, size, name_bytes, layer_count, count = sizes
    if magic != MAGIC:
        raise _corrupt(f"begins with {magic!r}; accepted: {MAGIC!r}")
    if version != VERSION:
        raise _corrupt(f"has version {version}; accepted: {VERSION}")
    if dtype >= len(_DTYPES):
        raise _corrupt(f"has element type {dtype}; accepted: {dict(enumerate(_DTYPES))}", "dtype")
    if finished > 1:
        raise _corrupt(f"has finished {finished}; accepted: 0-1", "finished")
    if (layers_at := _payload_at(name_bytes, 0)) > len(blob):
        raise _corrupt(f"has {len(blob)} bytes for a request id of {name_bytes}", "request_id")
    if (payload_at := _payload_at(name_bytes, layer_count)) > len(blob):
        raise _corrupt(f"has {len(blob)} bytes for {layer_count} layers", "layers")
    header = FrameHeader(
        request_id=RequestId(_text(blob[_HEADER.size : _HEADER.size + name_bytes])),
        policy_version=PolicyVersion(policy),
        prompt_hash=prompt_hash,
        start=start,
        token_count=count,
        hidden_size=size,
        dtype=_DTYPES[dtype],
        prompt_tokens=prompt,
        response_tokens=response,
        finished=bool(finished),
        layers=struct.unpack(f"<{layer_count}i", blob[layers_at:payload_at]),
    )
    if len(blob) != (expected := payload_at + header.payload_bytes):
        raise _corrupt(f"has {len(blob)} bytes for {count} states of {size}; accepted: {expected}", "hidden")
    return EncodedFrame(header=header, blob=blob)


def decode(header: FrameHeader, blob: bytes | bytearray) -> HiddenFrame:
    """
    Return token ids and states as views of a blob that `read` accepted.

    Raises:
        InvalidRequestError: A token id is negative.
    """
    ids_at = len(blob) - header.payload_bytes
    hidden_at = ids_at + header.token_id_bytes
    view = memoryview(blob)
    token_ids = view[ids_at:hidden_at].cast("i")
    if (smallest := min(token_ids)) < 0:
        raise InvalidRequestError(
            f"frame.token_ids contains {smallest}; accepted: 0 and above", field="frame.token_ids"
        )
    return HiddenFrame(header=header, token_ids=token_ids, hidden=view[hidden_at:])


def _padding(name_bytes: int) -> int:
    return -name_bytes % _ALIGNMENT


def _payload_at(name_bytes: int, layer_count: int) -> int:
    return _HEADER.size + name_bytes + _padding(name_bytes) + layer_count * _INT_BYTES


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise _corrupt("has a request id that is not UTF-8", "request_id") from error


def _corrupt(what: str, part: str = "") -> InvalidRequestError:
    return InvalidRequestError(f"frame blob {what}", field=f"frame.{part}" if part else "frame")
