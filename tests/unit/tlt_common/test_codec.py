"""Frames survive the codec unchanged, headers are read without the payload, and nothing else is read as a frame."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.codec import MAGIC, decode, encode, read
from tlt_common.domain.hidden import ELEMENT_BYTES, EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

COUNT = st.integers(min_value=0, max_value=2**31 - 1)
FIXED_BYTES = 52
"""Length of the fixed header; what follows is found by it."""


@st.composite
def headers(draw: st.DrawFn) -> FrameHeader:
    layers = tuple(sorted(draw(st.sets(st.integers(0, 2**31 - 1), max_size=3))))
    return FrameHeader(
        request_id=RequestId(draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))),
        policy_version=PolicyVersion(draw(st.integers(0, 2**62))),
        prompt_hash=draw(st.integers(0, 2**64 - 1)),
        start=draw(COUNT),
        token_count=draw(st.integers(1, 9)),
        hidden_size=draw(st.integers(1, 7)) * (len(layers) + 1),
        dtype=draw(st.sampled_from(sorted(ELEMENT_BYTES))),
        prompt_tokens=draw(COUNT),
        response_tokens=draw(COUNT),
        finished=draw(st.booleans()),
        layers=layers,
    )


@st.composite
def payloads(draw: st.DrawFn, header: FrameHeader) -> tuple[list[int], bytes]:
    ids = draw(st.lists(COUNT, min_size=header.token_count + 1, max_size=header.token_count + 1))
    return ids, draw(st.binary(min_size=header.hidden_bytes, max_size=header.hidden_bytes))


@st.composite
def frames(draw: st.DrawFn) -> EncodedFrame:
    header = draw(headers())
    ids, hidden = draw(payloads(header))
    return encode(header, ids, [hidden])


HEADER = FrameHeader(
    request_id=RequestId("r/0"),
    policy_version=PolicyVersion(3),
    prompt_hash=7,
    start=0,
    token_count=1,
    hidden_size=1,
    dtype="BF16",
    prompt_tokens=1,
    response_tokens=1,
    finished=False,
)


@given(headers(), st.data())
def test_a_frame_comes_back_as_it_went_in(header: FrameHeader, data: st.DataObject) -> None:
    ids, hidden = data.draw(payloads(header))
    cut = data.draw(st.integers(0, len(hidden)))
    frame = encode(header, ids, [hidden[:cut], memoryview(hidden)[cut:]])
    assert frame.header == header
    assert read(frame.blob) == frame
    back = decode(header, frame.blob)
    assert (list(back.token_ids), bytes(back.hidden)) == (ids, hidden)


@given(frames(), st.data())
def test_the_header_is_read_whatever_the_payload_holds(frame: EncodedFrame, data: st.DataObject) -> None:
    payload_at = len(frame.blob) - frame.header.payload_bytes
    noise = data.draw(st.binary(min_size=frame.header.payload_bytes, max_size=frame.header.payload_bytes))
    changed = frame.blob[:payload_at] + noise
    assert read(changed) == EncodedFrame(header=frame.header, blob=changed)


@given(frames())
def test_token_ids_and_states_are_aligned_views(frame: EncodedFrame) -> None:
    back = decode(frame.header, frame.blob)
    assert back.token_ids.obj is back.hidden.obj is frame.blob
    assert (len(frame.blob) - frame.header.payload_bytes) % 4 == 0


@given(frames(), st.data())
def test_a_blob_of_another_length_is_refused(frame: EncodedFrame, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(frame.blob) - 1))
    with pytest.raises(InvalidRequestError, match="frame blob has"):
        read(frame.blob[:cut])
    with pytest.raises(InvalidRequestError, match="frame blob has"):
        read(frame.blob + b"\0")


@given(st.binary(max_size=400))
def test_bytes_that_are_no_frame_are_refused(blob: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="frame blob"):
        read(blob)


@given(frames(), st.integers(0, 200), st.integers(1, 255))
def test_a_flipped_byte_never_raises_anything_else(frame: EncodedFrame, index: int, flip: int) -> None:
    blob = bytearray(frame.blob)
    blob[index % len(blob)] ^= flip
    try:
        changed = read(bytes(blob))
        decode(changed.header, changed.blob)
    except InvalidRequestError as error:
        assert error.field.startswith("frame")  # noqa: PT017 - a flip in ids or states is a valid other frame


@pytest.mark.parametrize(
    ("at", "value", "field"),
    [
        (6, b"\x09", "frame.dtype"),
        (7, b"\x02", "frame.finished"),
        (24, b"\xff\xff\xff\xff", "frame.start"),
        (36, b"\0\0\0\0", "frame.hidden_size"),
        (40, b"\xff\xff\0\0", "frame.request_id"),
        (44, b"\xff\xff\0\0", "frame.layers"),
        (44, b"\x01\0\0\0", "frame.hidden_size"),
        (48, b"\0\0\0\0", "frame.token_count"),
        (48, b"\xff\xff\xff\xff", "frame.hidden"),
        (FIXED_BYTES, b"\xff", "frame.request_id"),
    ],
)
def test_a_refusal_names_the_field(at: int, value: bytes, field: str) -> None:
    blob = bytearray(encode(HEADER, [1, 2], [b"\0\1"]).blob)
    blob[at : at + len(value)] = value
    with pytest.raises(InvalidRequestError) as caught:
        read(bytes(blob))
    assert caught.value.field == field


def test_a_negative_token_id_is_refused_by_decode_alone() -> None:
    frame = encode(HEADER, [1, -2], [b"\0\1"])
    assert read(frame.blob) == frame
    with pytest.raises(InvalidRequestError, match="contains -2") as caught:
        decode(frame.header, frame.blob)
    assert caught.value.field == "frame.token_ids"


@pytest.mark.parametrize("layers", [(2, 1), (1, 1), (-1, 1)])
def test_layers_ascend_from_0(layers: tuple[int, ...]) -> None:
    with pytest.raises(InvalidRequestError, match="layers is") as caught:
        replace(HEADER, hidden_size=3, layers=layers)
    assert caught.value.field == "frame.layers"


def test_ids_and_states_that_do_not_fit_the_header_are_not_encoded() -> None:
    with pytest.raises(InvalidRequestError, match="token_ids has 3 ids; accepted: 2"):
        encode(HEADER, [1, 2, 3], [b"\0\1"])
    with pytest.raises(InvalidRequestError, match="hidden has 2 bytes; accepted: 4"):
        encode(replace(HEADER, dtype="F32"), [1, 2], [b"\0\1"])


def test_the_first_bytes_say_what_it_is() -> None:
    blob = encode(HEADER, [1, 2], [b"\x00\x01"]).blob
    assert blob.startswith(MAGIC)
    assert blob[FIXED_BYTES:] == b"r/0\0" + b"\x01\0\0\0\x02\0\0\0" + b"\x00\x01"
