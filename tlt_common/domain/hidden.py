"""Hidden states as raw bytes."""

from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

ELEMENT_BYTES = {"BF16": 2, "F16": 2, "F32": 4}
"""Element types as safetensors names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenFrame:
    """
    A stretch of one response: n hidden states and the n + 1 tokens around them.

    State t (of position start + t) was computed from tokens up to position start + t, so that it, with the
    token at start + t + 1, is the drafter's input: the last hidden state for EAGLE; for EAGLE-3 those of a low, a
    middle and a high layer, side by side.
    """

    request_id: RequestId
    policy_version: PolicyVersion
    start: int
    """Position of the first state in the sequence, prompt included."""
    token_ids: tuple[int, ...]
    """n + 1 ids, of positions start .. start + n."""
    hidden_size: int
    """Elements of one state: the model's hidden size, times the layers an EAGLE-3 drafter reads."""
    dtype: str
    hidden: bytes
    """n * hidden_size elements, little-endian, row-major."""
    prompt_tokens: int
    """Length of the prompt: positions from there on were generated."""
    response_tokens: int
    """Tokens of the response so far."""
    finished: bool

    def __post_init__(self) -> None:
        """
        Check that bytes and tokens agree.

        Raises:
            InvalidRequestError: They do not.
        """
        if self.dtype not in ELEMENT_BYTES:
            raise InvalidRequestError(
                f"frame.dtype is {self.dtype!r}; accepted: {sorted(ELEMENT_BYTES)}", field="frame.dtype"
            )
        expected = self.token_count * self.hidden_size * ELEMENT_BYTES[self.dtype]
        if self.token_count < 1 or self.hidden_size < 1 or len(self.hidden) != expected:
            raise InvalidRequestError(
                f"frame.hidden has {len(self.hidden)} bytes; accepted: {expected} for {self.token_count} states "
                f"of {self.hidden_size} {self.dtype}",
                field="frame.hidden",
            )

    @property
    def token_count(self) -> int:
        """Number of states, n."""
        return len(self.token_ids) - 1

    @property
    def size_bytes(self) -> int:
        """What keeping it costs, payload and ids."""
        return len(self.hidden) + 4 * len(self.token_ids) + 64


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePolicy:
    """What engines keep of their hidden states. Decided before anything is copied."""

    enabled: bool = True
    sample_ratio: float = 1.0
    """Share of requests captured."""
    frame_tokens: int = 256
    """Most states of one frame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUsage:
    """How full the cache is."""

    frames: int
    tokens: int
    used_bytes: int
    budget_bytes: int
    evicted: int
