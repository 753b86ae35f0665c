"""Responses: chunks of tokens, and statistics."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from tlt_common.domain.ids import PolicyVersion, RequestId


class FinishReason(StrEnum):
    """Why a response ended."""

    STOP = "stop"
    """An end token, a stop token or a stop string."""
    LENGTH = "length"
    """max_new_tokens or the context length was reached."""
    ABORT = "abort"
    """The request was aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStats:
    """Statistics of one response."""

    prompt_tokens: int
    completion_tokens: int
    """Tokens generated for this request, excluding a prefix."""
    rounds: int
    """Verification rounds. Equals completion_tokens without speculation."""
    accepted_draft_tokens: int
    proposed_draft_tokens: int = 0
    """Draft tokens verified, accepted or not."""
    speculation_blocker: str = ""
    """Why no drafts were allowed; empty if they were."""
    worker_id: str = ""
    cached_tokens: int = 0
    """Tokens of the prompt that the worker had cached and did not prefill."""

    @property
    def accept_length(self) -> float:
        """Tokens per round, including the bonus token."""
        return self.completion_tokens / self.rounds if self.rounds else 0.0

    def meta_info(self) -> dict[str, float]:
        """
        Return the speculation statistics of SGLang's `meta_info` under their new and old names, for trainers that read
        them.

        As in SGLang, the pass that computes the first token is not a verification. Without verifications, the
        statistics are omitted.
        """
        info: dict[str, float] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cached_tokens": self.cached_tokens,
        }
        verified = max(0, self.rounds - 1)
        if not verified:
            return info
        accepted, proposed = self.accepted_draft_tokens, self.proposed_draft_tokens
        return info | {
            "spec_verify_ct": verified,
            "spec_accept_length": self.completion_tokens / verified,
            "spec_accept_rate": accepted / proposed if proposed else 0.0,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": proposed,
            "spec_accept_token_num": accepted,
            "spec_draft_token_num": proposed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedExperts:
    """
    The experts to which the tokens of a prompt and its response were routed, for trainers that replay the routing.

    One row per token, from position `first` of prompt and response together to the second-to-last token, since the last
    token was never an input. A row has `top_k` experts for each layer, and zeros for layers without experts.
    """

    first: int
    layers: int
    """All layers of the model, including those without experts."""
    top_k: int
    dtype: str
    """U8 if the model has at most 256 experts, else I32."""
    data: bytes
    """[tokens, layers, top_k], little-endian."""

    @property
    def tokens(self) -> int:
        """Number of rows."""
        return len(self.data) // (self.layers * self.top_k * (1 if self.dtype == "U8" else 4))

    def int32(self) -> bytes:
        """Return the rows as little-endian int32. Needs no numpy."""
        if self.dtype != "U8":
            return self.data
        wide = bytearray(4 * len(self.data))
        wide[::4] = self.data
        return bytes(wide)

    def array(self) -> Any:
        """Return the rows as a numpy array of int32, [tokens, layers, top_k]."""
        import numpy as np  # which gateways lack

        return np.frombuffer(self.int32(), np.dtype("<i4")).reshape(-1, self.layers, self.top_k)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptLogprobs:
    """
    Log-probabilities of a prompt's tokens, each given the tokens before it, under the weights of the first new token.

    They are log_softmax of the target's logits at temperature 1, whatever the sampling parameters.
    """

    first: int
    """Position of the first value's token: the requested one, or 1 instead of 0, since nothing precedes that token."""
    logprobs: Sequence[float]
    """One per token from `first` to the end of the prompt, in an array of float32: prompts may be long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChunk:
    """The next tokens of a response. The three tuples have the same length."""

    request_id: RequestId
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """One per token, of the requested kind."""
    policy_versions: tuple[PolicyVersion, ...]
    finish_reason: FinishReason | None = None
    """Set on the last chunk, as is `stats`."""
    stats: ResponseStats | None = None
    matched_stop: str = ""
    """The stop string that ended the response; empty if none did. Set on the last chunk."""
    routed_experts: RoutedExperts | None = None
    """Set on the last chunk if the prompt requests them, unless the response was aborted."""
    prompt_logprobs: PromptLogprobs | None = None
    """Set on the first chunk with tokens if the prompt requests them, and on what is merged from it."""
    rounds: int = 0
    """Rounds that produced the tokens, if the chunk merges several; 0 means one round if there are tokens."""

    def followed_by(self, other: "TokenChunk") -> "TokenChunk":
        """Return both chunks as one."""
        return replace(
            other,
            token_ids=self.token_ids + other.token_ids,
            logprobs=self.logprobs + other.logprobs,
            policy_versions=self.policy_versions + other.policy_versions,
            prompt_logprobs=self.prompt_logprobs or other.prompt_logprobs,
            rounds=(self.rounds or bool(self.token_ids)) + (other.rounds or bool(other.token_ids)),
        )
