"""Frames as the trainer uses them, decoded once on arrival from the cache."""

from dataclasses import dataclass

import torch
from torch import Tensor

from tlt_common.codec import decode
from tlt_common.domain.hidden import SCALED, EncodedFrame, FrameHeader
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError
from tlt_trainer.data.scaled_states import are_finite

TORCH_DTYPES = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32, SCALED: torch.uint8}
"""Types of a frame's tensor; scaled states stay bytes until they are on the device."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainingFrame:
    """N states of size H and their N + 1 token ids."""

    header: FrameHeader
    token_ids: Tensor
    """(N + 1,), int32."""
    hidden: Tensor
    """(N, H), in the capture's dtype; for scaled states (N, H + SCALE_BYTES), as encoded by the engine."""


def generated_ids(frame: TrainingFrame) -> Tensor:
    """Return the generated tokens that a frame predicts. Every token of a response is in exactly one of its frames."""
    header = frame.header
    return frame.token_ids[max(1, header.prompt_tokens - header.start) :]


def whole_response(
    token_ids: Tensor, hidden: Tensor, *, number: int = 0, layers: tuple[int, ...] = ()
) -> TrainingFrame:
    """
    Return synthetic data as the frame of a whole response to a one-token prompt, for warm-up and measurements.

    Args:
        token_ids: (N + 1,), int32.
        hidden: (N, H), bfloat16.
        number: Distinguishes responses and their prompts.
        layers: Layers whose states precede the last ones.
    """
    tokens, size = hidden.shape
    header = FrameHeader(
        request_id=RequestId(f"{number}/0"),
        policy_version=PolicyVersion(0),
        prompt_hash=number,
        start=0,
        token_count=tokens,
        hidden_size=size,
        dtype="BF16",
        prompt_tokens=1,
        response_tokens=tokens - 1,
        finished=True,
        layers=layers,
    )
    return TrainingFrame(header=header, token_ids=token_ids, hidden=hidden)


def decoded(frame: EncodedFrame) -> TrainingFrame:
    """
    Decode token ids and states with one copy of the bytes and no conversion.

    Raises:
        InvalidRequestError: A token id is negative, or a state is not finite.
    """
    # A writable copy: torch warns about read-only memory, and the message can be released.
    parts = decode(frame.header, bytearray(frame.blob))
    header = frame.header
    states = torch.frombuffer(parts.hidden, dtype=TORCH_DTYPES[header.dtype]).view(header.token_count, -1)
    if not (are_finite(states) if header.dtype == SCALED else bool(torch.isfinite(states).all())):
        raise InvalidRequestError("frame.hidden contains a value that is not finite", field="frame.hidden")
    return TrainingFrame(
        header=header,
        token_ids=torch.frombuffer(parts.token_ids, dtype=torch.int32),
        hidden=states,
    )
