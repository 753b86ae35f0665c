"""Prompts and responses."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.errors import InvalidRequestError


class Speculation(StrEnum):
    """Whether drafts may be used for a request. The distribution of responses is the same either way."""

    AUTO = "auto"
    """The engine's bandit decides each round."""
    OFF = "off"
    """No draft is accepted for this request; others of its batch may be drafted for."""


class LogprobKind(StrEnum):
    """Of which distribution the logprobs of a response are. Penalties are part of each."""

    POLICY = "policy"
    """log_softmax(logits / temperature) over the whole vocabulary, as trainers recompute it; greedy: as RAW."""
    RAW = "raw"
    """log_softmax(logits): temperature 1."""
    TRUNCATED = "truncated"
    """What was drawn from: POLICY cut by top-k, top-p and min-p and normalised again; greedy: 0."""


class FinishReason(StrEnum):
    """Why a response ended."""

    STOP = "stop"
    """An end token or a stop token."""
    LENGTH = "length"
    """max_new_tokens or the context was reached."""
    ABORT = "abort"
    """Somebody aborted it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How one response is sampled. Defaults sample the policy as it is, as RL needs."""

    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all candidates."""
    min_p: float = 0.0
    max_new_tokens: int | None = None
    """None: the rest of the context."""
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None
    """Makes the response repeatable: its tokens depend on prompt, seed and weights, on drafts only by rounding."""
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    min_new_tokens: int = 0
    logprobs: LogprobKind = LogprobKind.POLICY

    def __post_init__(self) -> None:
        """
        Check every field by itself.

        Raises:
            InvalidRequestError: A number is out of its range.
        """
        _in_range("temperature", self.temperature, low=0.0, high=100.0)
        _in_range("top_p", self.top_p, low=0.0, high=1.0, open_low=True)
        _in_range("min_p", self.min_p, low=0.0, high=1.0)
        _in_range("top_k", self.top_k, low=0, high=2**31 - 1)
        _in_range("frequency_penalty", self.frequency_penalty, low=-2.0, high=2.0)
        _in_range("presence_penalty", self.presence_penalty, low=-2.0, high=2.0)
        _in_range("repetition_penalty", self.repetition_penalty, low=0.0, high=2.0, open_low=True)
        _in_range("min_new_tokens", self.min_new_tokens, low=0, high=2**31 - 1)
        if self.seed is not None:
            _in_range("seed", self.seed, low=0, high=2**63 - 1)
        if self.max_new_tokens is not None:
            _in_range("max_new_tokens", self.max_new_tokens, low=1, high=2**31 - 1)


def _in_range(name: str, value: float, *, low: float, high: float, open_low: bool = False) -> None:
    # Written so that NaN fails.
    if not (low < value <= high if open_low else low <= value <= high):
        accepted = f"{'above' if open_low else 'from'} {low:g} to {high:g}"
        raise InvalidRequestError(f"sampling.{name} is {value}; accepted: {accepted}", field=f"sampling.{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One prompt to answer."""

    request_id: RequestId
    token_ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    speculation: Speculation = Speculation.AUTO
    capture: bool = True
    """Whether its hidden states may be used for drafter training."""
    policy_version: PolicyVersion | None = None
    """Answer only with this version; None takes whatever is newest."""
    prefix_token_ids: tuple[int, ...] = ()
    """
    Tokens of the response that were made before, by whatever worker and version: it goes on behind them.

    Lengths and penalties count them, a seed goes on where it was, and what is answered are new tokens only. Whoever
    has the prefix keeps its logprobs and versions.
    """

    def for_model(self, *, vocab_size: int, context_length: int) -> "Prompt":
        """
        Check against a model and fill in max_new_tokens.

        Raises:
            InvalidRequestError: The prompt is empty, too long, or has ids outside the vocabulary.
        """
        if not self.token_ids:
            raise InvalidRequestError(
                "prompt.token_ids is empty; accepted: at least one token", field="prompt.token_ids"
            )
        for name, ids in (("token_ids", self.token_ids), ("prefix_token_ids", self.prefix_token_ids)):
            _in_vocabulary(f"prompt.{name}", ids, vocab_size)
        room = context_length - len(self.token_ids)
        if room < 1:
            raise InvalidRequestError(
                f"prompt.token_ids has {len(self.token_ids)} tokens; accepted: at most {context_length - 1}, "
                f"since the context holds {context_length}",
                field="prompt.token_ids",
            )
        wanted = self.sampling.max_new_tokens
        if wanted is not None and wanted > room:
            raise InvalidRequestError(
                f"sampling.max_new_tokens is {wanted}; accepted: at most {room} after a prompt of "
                f"{len(self.token_ids)} tokens, since the context holds {context_length}",
                field="sampling.max_new_tokens",
            )
        most = wanted or room
        if self.sampling.min_new_tokens > most:
            raise InvalidRequestError(
                f"sampling.min_new_tokens is {self.sampling.min_new_tokens}; accepted: at most {most}, the most tokens "
                "that may come",
                field="sampling.min_new_tokens",
            )
        if len(self.prefix_token_ids) >= most:
            raise InvalidRequestError(
                f"prompt.prefix_token_ids has {len(self.prefix_token_ids)} tokens; accepted: fewer than {most}, the "
                "most tokens that may come",
                field="prompt.prefix_token_ids",
            )
        return replace(self, sampling=replace(self.sampling, max_new_tokens=most))


def _in_vocabulary(name: str, ids: tuple[int, ...], vocab_size: int) -> None:
    for position, token in enumerate(ids):
        if not 0 <= token < vocab_size:
            raise InvalidRequestError(f"{name}[{position}] is {token}; accepted: 0 to {vocab_size - 1}", field=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseStats:
    """What one response took."""

    prompt_tokens: int
    completion_tokens: int
    """Tokens made for this request; those of a prefix were made before."""
    rounds: int
    """Verification rounds; equals completion_tokens without speculation."""
    accepted_draft_tokens: int
    proposed_draft_tokens: int = 0
    """Draft tokens that were verified, accepted or not."""
    speculation_blocker: str = ""
    """Why no drafts were allowed; empty when they were."""
    worker_id: str = ""

    @property
    def accept_length(self) -> float:
        """Tokens per round, bonus token included."""
        return self.completion_tokens / self.rounds if self.rounds else 0.0

    def meta_info(self) -> dict[str, float]:
        """
        Return what SGLang's `meta_info` says of speculation, for trainers that read it: new names, and those before.

        As SGLang counts, the first token's pass is no verification; without a verification there are no such figures.
        """
        said: dict[str, float] = {"prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens}
        verified = max(0, self.rounds - 1)
        if not verified:
            return said
        accepted, proposed = self.accepted_draft_tokens, self.proposed_draft_tokens
        return said | {
            "spec_verify_ct": verified,
            "spec_accept_length": self.completion_tokens / verified,
            "spec_accept_rate": accepted / proposed if proposed else 0.0,
            "spec_num_correct_drafts": accepted,
            "spec_num_proposed_drafts": proposed,
            "spec_accept_token_num": accepted,
            "spec_draft_token_num": proposed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenChunk:
    """The next tokens of a response. The three tuples have the same length."""

    request_id: RequestId
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """Of each token, of the kind that was asked for."""
    policy_versions: tuple[PolicyVersion, ...]
    finish_reason: FinishReason | None = None
    """Set on the last chunk, as is `stats`."""
    stats: ResponseStats | None = None

    def followed_by(self, other: "TokenChunk") -> "TokenChunk":
        """Both chunks as one."""
        return replace(
            other,
            token_ids=self.token_ids + other.token_ids,
            logprobs=self.logprobs + other.logprobs,
            policy_versions=self.policy_versions + other.policy_versions,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One finished sample of a batch."""

    prompt_index: int
    sample_index: int
    response: TokenChunk
    finished_count: int
    total_count: int
    elapsed_s: float
    """From the start of the batch."""
