"""Encoded frames of random bytes, as a worker sends them."""

import os

from tlt_common.codec import encode
from tlt_common.domain.hidden import EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId

MIB = 2**20


def random_frame(number: int, *, tokens: int, hidden_size: int) -> EncodedFrame:
    """Return a frame of one response, with states of random bits."""
    header = FrameHeader(
        request_id=RequestId(f"{number}/0"),
        policy_version=PolicyVersion(0),
        prompt_hash=number,
        start=0,
        token_count=tokens,
        hidden_size=hidden_size,
        dtype="BF16",
        prompt_tokens=1,
        response_tokens=tokens,
        finished=True,
    )
    return encode(header, range(tokens + 1), [os.urandom(header.hidden_bytes)])
