"""Prompts and sampling parameters."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from tlt_common.domain.bounds import (
    INT32_MAX,
    INT64_MAX,
    MAX_INTERNAL_ID,
    MAX_SESSION_ID,
    require_count,
    require_ids,
    require_name,
    require_range,
    require_stop_strings,
    require_tokenizer,
)
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError

MAX_STOP_TOKEN_IDS = 256
"""Maximum number of stop tokens of a request."""
MIN_REPETITION_PENALTY = 0.01
"""Smaller divisors would turn logits into infinities."""


class Speculation(StrEnum):
    """Whether drafts may be used for a request. The distribution of responses is the same either way."""

    AUTO = "auto"
    """The engine's bandit chooses each round."""
    OFF = "off"
    """No draft is accepted for this request; other requests of its batch may still use drafts."""


class LogprobKind(StrEnum):
    """Distribution to which the logprobs of a response refer. All kinds include penalties."""

    POLICY = "policy"
    """log_softmax(logits / temperature) over the whole vocabulary, as trainers recompute it; same as RAW if greedy."""
    RAW = "raw"
    """log_softmax(logits), at temperature 1."""
    TRUNCATED = "truncated"
    """The sampled distribution: POLICY truncated by top-k, top-p and min-p and renormalized; 0 if greedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling parameters of one response. The defaults sample the unmodified policy, as RL requires."""

    temperature: float = 1.0
    """0 means greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all candidates."""
    min_p: float = 0.0
    max_new_tokens: int | None = None
    """Maximum number of generated tokens; None means the rest of the context."""
    stop_token_ids: tuple[int, ...] = ()
    """Additional tokens that end the response: at most 256, within the vocabulary."""
    stop: tuple[str, ...] = ()
    """Strings that end the response with the token that completes one in its text: at most 32, of 1 to 128 characters.
    Special tokens are text. A string that is complete within `min_new_tokens` does not end the response."""
    ignore_eos: bool = False
    """Continue past the model's end tokens; `stop_token_ids` still end the response."""
    seed: int | None = None
    """Makes the response reproducible: its tokens depend on prompt, seed and weights. Drafts only affect rounding."""
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    logprobs: LogprobKind = LogprobKind.POLICY

    def __post_init__(self) -> None:
        """
        Validate every field.

        Raises:
            InvalidRequestError: A number is out of range.
        """
        require_range("sampling.temperature", self.temperature, low=0.0, high=100.0)
        require_range("sampling.top_p", self.top_p, low=0.0, high=1.0, open_low=True)
        require_range("sampling.min_p", self.min_p, low=0.0, high=1.0)
        require_range("sampling.top_k", self.top_k, low=0, high=INT32_MAX)
        require_range("sampling.frequency_penalty", self.frequency_penalty, low=-2.0, high=2.0)
        require_range("sampling.presence_penalty", self.presence_penalty, low=-2.0, high=2.0)
        require_range("sampling.repetition_penalty", self.repetition_penalty, low=MIN_REPETITION_PENALTY, high=2.0)
        require_range("sampling.min_new_tokens", self.min_new_tokens, low=0, high=INT32_MAX)
        require_count("sampling.stop_token_ids", len(self.stop_token_ids), most=MAX_STOP_TOKEN_IDS)
        require_stop_strings("sampling.stop", self.stop)
        if self.seed is not None:
            require_range("sampling.seed", self.seed, low=0, high=INT64_MAX)
        if self.max_new_tokens is not None:
            require_range("sampling.max_new_tokens", self.max_new_tokens, low=1, high=INT32_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request for one response."""

    request_id: RequestId
    token_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    speculation: Speculation = Speculation.AUTO
    capture: bool = True
    """Whether its hidden states may be used for drafter training."""
    policy_version: PolicyVersion | None = None
    """
    Required policy version when the response begins; None accepts the newest.

    Requests in flight continue with the new weights of an update, so a later attempt that has a prefix accepts this
    version or a newer one.
    """
    prefix_token_ids: tuple[int, ...] = ()
    """
    Tokens of the response generated earlier, by any worker and version; generation continues after them.

    Length limits and penalties count them, a seed continues, and only new tokens are returned. The caller keeps the
    logprobs and versions of the prefix.
    """
    attempt: int = 0
    """Number of earlier attempts at this response. A newer attempt replaces an older one that still runs."""
    max_staleness: int | None = None
    """
    Maximum number of versions between the first token and the served version; None sets no limit. Beyond it, the
    response is aborted and keeps the tokens within the limit.
    """
    begun_version: PolicyVersion | None = None
    """
    Policy version of the first prefix token, where `max_staleness` starts; None starts at the first new token.
    """
    session_id: str = ""
    """Conversation to which this request belongs. It runs where the earlier turns are cached, as load permits."""
    cache_salt: str = ""
    """Prompts share cached prefixes and n-gram drafts only with prompts of the same caller and salt."""
    routed_experts_start: int | None = None
    """
    First position of the prompt whose routed experts are returned, or the prompt's length for the response only; None
    returns none. Experts of a prefix are recomputed by the worker that ends the response.
    """
    prompt_logprobs_start: int | None = None
    """
    First position of the prompt whose log-probabilities are returned, with the first tokens; None returns none. They
    are computed for each request. Of the prefix cache, only what precedes the position is used.
    """
    owner: str = ""
    """Name of the caller's token, set by the gateway; empty without one."""
    cache_key: str = ""
    """Set by the gateway from owner and salt. Prompts with different keys share no caches."""
    keep_key: str = ""
    """Key under which a worker keeps the response if its gateway is lost, set by the gateway; empty keeps none."""

    @property
    def key(self) -> tuple[str, RequestId]:
        """Identifies the request at a gateway: ids are scoped to their owner."""
        return self.owner, self.request_id

    @property
    def is_continued(self) -> bool:
        """Whether an earlier attempt generated the start of the response."""
        return self.attempt > 0 and bool(self.prefix_token_ids)

    def __post_init__(self) -> None:
        """
        Validate the fields that do not depend on a model.

        Raises:
            InvalidRequestError: An id is too long or not printable, or a version is out of range.
        """
        require_name("prompt.request_id", self.request_id, most=MAX_INTERNAL_ID)
        require_name("prompt.session_id", self.session_id, most=MAX_SESSION_ID)
        require_name("prompt.cache_salt", self.cache_salt, most=MAX_SESSION_ID)
        if self.policy_version is not None:
            require_range("prompt.policy_version", self.policy_version, low=0, high=INT64_MAX)
        require_range("prompt.attempt", self.attempt, low=0, high=INT32_MAX)
        for name in ("max_staleness", "begun_version"):
            if (value := getattr(self, name)) is not None:
                require_range(f"prompt.{name}", value, low=0, high=INT64_MAX)

    def for_model(
        self,
        *,
        vocab_size: int,
        context_length: int,
        finds_stop_strings: bool = False,
        returns_routed_experts: bool = False,
        **fields: Any,
    ) -> "Prompt":
        """
        Validate the prompt for a model and fill in max_new_tokens.

        Args:
            vocab_size: Size of the model's vocabulary.
            context_length: Tokens of prompt and response together.
            finds_stop_strings: Whether the engines detect stop strings.
            returns_routed_experts: Whether the engines return routed experts.
            fields: Further fields to set, in the same copy.

        Raises:
            InvalidRequestError: The prompt is empty, too long or outside the vocabulary, requests stop strings or
                routed experts that this model's engines do not support, or log-probabilities from behind its end.
        """
        if not self.token_ids:
            raise InvalidRequestError(
                "prompt.token_ids is empty; accepted: at least one token", field="prompt.token_ids"
            )
        require_ids("prompt.token_ids", self.token_ids, vocab_size)
        require_ids("sampling.stop_token_ids", self.sampling.stop_token_ids, vocab_size)
        require_tokenizer("sampling.stop", self.sampling.stop, found=finds_stop_strings)
        self._require_routing(returned=returns_routed_experts)
        if self.prompt_logprobs_start is not None:
            last = len(self.token_ids) - 1
            require_range("prompt.prompt_logprobs_start", self.prompt_logprobs_start, low=0, high=last)
        room = context_length - len(self.token_ids)
        if room < 1:
            raise InvalidRequestError(
                f"prompt.token_ids has {len(self.token_ids)} tokens; the maximum is {context_length - 1}, "
                f"since the context holds {context_length}",
                field="prompt.token_ids",
            )
        requested = self.sampling.max_new_tokens
        if requested is not None and requested > room:
            raise InvalidRequestError(
                f"sampling.max_new_tokens is {requested}; the maximum is {room} after a prompt of "
                f"{len(self.token_ids)} tokens, since the context holds {context_length}",
                field="sampling.max_new_tokens",
            )
        limit = room if requested is None else requested
        if self.sampling.min_new_tokens > limit:
            raise InvalidRequestError(
                f"sampling.min_new_tokens is {self.sampling.min_new_tokens}; the maximum is {limit}, the limit "
                "of new tokens",
                field="sampling.min_new_tokens",
            )
        if requested is None:
            fields["sampling"] = replace(self.sampling, max_new_tokens=limit)
        prompt = replace(self, **fields) if fields else self
        prompt.require_prefix(vocab_size=vocab_size)
        return prompt

    def require_prefix(self, *, vocab_size: int) -> None:
        """
        Check the prefix of a prompt that is otherwise valid and has its max_new_tokens.

        Raises:
            InvalidRequestError: The prefix is outside the vocabulary, or leaves no token to generate.
        """
        require_ids("prompt.prefix_token_ids", self.prefix_token_ids, vocab_size)
        limit = self.sampling.max_new_tokens
        if limit is not None and len(self.prefix_token_ids) >= limit:
            raise InvalidRequestError(
                f"prompt.prefix_token_ids has {len(self.prefix_token_ids)} tokens; accepted: fewer than {limit}, the "
                "limit of new tokens",
                field="prompt.prefix_token_ids",
            )

    def _require_routing(self, *, returned: bool) -> None:
        start = self.routed_experts_start
        if start is None:
            return
        if not returned:
            raise InvalidRequestError(
                "prompt.routed_experts_start is set, and the engines do not return routed experts; accepted: unset, or "
                "a mixture of experts that is served with worker.engine.return_routed_experts",
                field="prompt.routed_experts_start",
            )
        require_range("prompt.routed_experts_start", start, low=0, high=len(self.token_ids))
