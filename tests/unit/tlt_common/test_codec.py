"""Frames survive the codec unchanged, and nothing else is read as a frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.codec import MAGIC, decode, encode
from tlt_common.domain.hidden import ELEMENT_BYTES, HiddenFrame
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

INT32 = st.integers(min_value=-(2**31), max_value=2**31 - 1)
COUNT = st.integers(min_value=0, max_value=2**31 - 1)


@st.composite
def frames(draw: st.DrawFn) -> HiddenFrame:
    states, size = draw(st.integers(1, 9)), draw(st.integers(1, 7))
    dtype = draw(st.sampled_from(sorted(ELEMENT_BYTES)))
    length = states * size * ELEMENT_BYTES[dtype]
    return HiddenFrame(
        request_id=RequestId(draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))),
        policy_version=PolicyVersion(draw(st.integers(0, 2**62))),
        start=draw(COUNT),
        token_ids=tuple(draw(st.lists(INT32, min_size=states + 1, max_size=states + 1))),
        hidden_size=size,
        dtype=dtype,
        hidden=draw(st.binary(min_size=length, max_size=length)),
        prompt_tokens=draw(COUNT),
        response_tokens=draw(COUNT),
        finished=draw(st.booleans()),
    )


@given(frames())
def test_a_frame_comes_back_as_it_went_in(frame: HiddenFrame) -> None:
    assert decode(encode(frame)) == frame


@given(frames(), st.data())
def test_a_blob_of_another_length_is_refused(frame: HiddenFrame, data: st.DataObject) -> None:
    blob = encode(frame)
    cut = data.draw(st.integers(0, len(blob) - 1))
    with pytest.raises(InvalidRequestError, match="frame blob has"):
        decode(blob[:cut])
    with pytest.raises(InvalidRequestError, match="frame blob has"):
        decode(blob + b"\0")


@given(st.binary(max_size=400))
def test_bytes_that_are_no_frame_are_refused(blob: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="frame blob"):
        decode(blob)


@given(frames(), st.integers(0, 200), st.integers(1, 255))
def test_a_flipped_byte_never_raises_anything_else(frame: HiddenFrame, index: int, flip: int) -> None:
    blob = bytearray(encode(frame))
    blob[index % len(blob)] ^= flip
    try:
        decode(bytes(blob))
    except InvalidRequestError as error:
        assert error.field.startswith("frame")  # noqa: PT017 - a flip in ids or states is a valid other frame


def test_the_first_bytes_say_what_it_is() -> None:
    frame = HiddenFrame(
        request_id=RequestId("r/0"),
        policy_version=PolicyVersion(3),
        start=0,
        token_ids=(1, 2),
        hidden_size=1,
        dtype="BF16",
        hidden=b"\x00\x01",
        prompt_tokens=1,
        response_tokens=1,
        finished=False,
    )
    blob = encode(frame)
    assert blob.startswith(MAGIC)
    assert blob.endswith(b"\x01\0\0\0\x02\0\0\0\x00\x01")
