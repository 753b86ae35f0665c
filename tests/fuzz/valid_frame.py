"""A valid hidden-state frame, from which inputs differ."""

from tlt_common.codec import encode
from tlt_common.domain.hidden import EncodedFrame, FrameHeader, prompt_hash
from tlt_common.domain.ids import PolicyVersion, RequestId

HIDDEN_SIZE = 4


def valid_frame(count: int) -> EncodedFrame:
    """Return a frame of `count` states of zeros."""
    header = FrameHeader(
        request_id=RequestId("prompt/0"),
        policy_version=PolicyVersion(1),
        prompt_hash=prompt_hash((1, 2)),
        start=2,
        token_count=count,
        hidden_size=HIDDEN_SIZE,
        dtype="BF16",
        prompt_tokens=2,
        response_tokens=count,
        finished=True,
    )
    return encode(header, range(count + 1), [bytes(header.hidden_bytes)])
