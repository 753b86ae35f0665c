"""Hidden states as raw bytes."""

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1}
"""Bytes per element, by safetensors' name of the type."""

SCALED = "F8_E4M3"
"""Element type of 8 bits: each state is followed by its scale, the float32 that its elements are multiplied with."""
SCALE_BYTES = 4

TOKEN_ID_BYTES = 4

PROMPT_HASHES = 2**64
"""Number of different prompt hashes."""


def prompt_hash(token_ids: Sequence[int]) -> int:
    """
    Return a 64-bit hash of a prompt: the first bits of BLAKE2b over the ids as little-endian int32.

    Equal in every process and on every platform, unlike `hash()`; uniform over 0 .. PROMPT_HASHES - 1.
    """
    ids = struct.pack(f"<{len(token_ids)}i", *token_ids)
    return int.from_bytes(hashlib.blake2b(ids, digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameHeader:
    """
    Header of a frame: n hidden states of one response, with the n + 1 token ids around them.

    State t (at position start + t) was computed from the tokens up to position start + t. Together with the token at
    start + t + 1 it is a training sample of the drafter. It is the last hidden state, preceded by the outputs of
    `layers`, which an EAGLE-3 drafter reads.
    """

    request_id: RequestId
    policy_version: PolicyVersion
    prompt_hash: int
    """Hash of the prompt's token ids, 64 bits; see `prompt_hash`. Equal prompts have equal hashes in every epoch."""
    start: int
    """Position of the first state in the sequence, including the prompt."""
    token_count: int
    """Number of states, n."""
    hidden_size: int
    """Elements per state: the model's hidden size, times one more than the number of `layers`."""
    dtype: str
    """Element type in safetensors' notation; states of type `SCALED` have scales."""
    prompt_tokens: int
    """Length of the prompt; later positions were generated."""
    response_tokens: int
    """Tokens of the response so far."""
    finished: bool
    """Whether the response is complete."""
    layers: tuple[int, ...] = ()
    """Layers whose outputs precede the last state, ascending; empty for EAGLE drafters."""

    def __post_init__(self) -> None:
        """
        Validate each field.

        Raises:
            InvalidRequestError: A value is out of range; the message names the field.
        """
        if self.dtype not in ELEMENT_BYTES:
            raise InvalidRequestError(
                f"frame.dtype is {self.dtype!r}; accepted: {sorted(ELEMENT_BYTES)}", field="frame.dtype"
            )
        for name, minimum in _MINIMUMS.items():
            if (value := getattr(self, name)) < minimum:
                raise InvalidRequestError(
                    f"frame.{name} is {value}; accepted: {minimum} and above", field=f"frame.{name}"
                )
        if list(self.layers) != sorted(set(self.layers)) or min(self.layers, default=0) < 0:
            raise InvalidRequestError(
                f"frame.layers is {list(self.layers)}; accepted: ascending numbers from 0", field="frame.layers"
            )
        if self.hidden_size % (len(self.layers) + 1):
            raise InvalidRequestError(
                f"frame.hidden_size is {self.hidden_size}; accepted: a multiple of {len(self.layers) + 1}, for "
                f"{len(self.layers)} layers and the last state",
                field="frame.hidden_size",
            )

    @property
    def token_id_bytes(self) -> int:
        """Bytes of the n + 1 token ids."""
        return TOKEN_ID_BYTES * (self.token_count + 1)

    @property
    def state_bytes(self) -> int:
        """Bytes of one state, with its scale if it has one."""
        return self.hidden_size * ELEMENT_BYTES[self.dtype] + (SCALE_BYTES if self.dtype == SCALED else 0)

    @property
    def hidden_bytes(self) -> int:
        """Bytes of the n states."""
        return self.token_count * self.state_bytes

    @property
    def payload_bytes(self) -> int:
        """Bytes of token ids and states."""
        return self.token_id_bytes + self.hidden_bytes


_MINIMUMS = {"prompt_hash": 0, "start": 0, "token_count": 1, "hidden_size": 1, "prompt_tokens": 0, "response_tokens": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedFrame:
    """A frame in transit: the bytes written by the engine, and the header read from them. See `tlt_common.codec`."""

    header: FrameHeader
    blob: bytes

    @property
    def size_bytes(self) -> int:
        """Size of the blob."""
        return len(self.blob)


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFrame:
    """A decoded frame. Both views refer to the decoded blob."""

    header: FrameHeader
    token_ids: memoryview
    """n + 1 ids (int32), at positions start .. start + n."""
    hidden: memoryview
    """n states of `state_bytes`, little-endian, row-major."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePolicy:
    """Selects the hidden states that engines capture. Evaluated before anything is copied."""

    enabled: bool = True
    sample_ratio: float = 1.0
    """Share of requests to capture."""
    frame_tokens: int = 256
    """Maximum number of states in a frame. Drafters are trained on windows of this length."""
    state_bits: int = 16
    """Bits per element of a state: 16 without conversion, or 8 with a scale per state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUsage:
    """Usage of the cache."""

    frames: int
    tokens: int
    used_bytes: int
    budget_bytes: int
    evicted: int
