"""Batches: n samples of each of many prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import sample_id
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import InvalidRequestError

SEEDS = 2**63
"""Seeds wrap around at this number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleStart:
    """Start of a sample of a batch."""

    prompt_index: int
    sample_index: int
    prefix_token_ids: tuple[int, ...] = ()
    """Tokens of the sample generated earlier, with which it returned the prompt's log-probabilities if asked to."""
    begun_version: PolicyVersion | None = None
    """Policy version of the first prefix token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A request for samples of many prompts."""

    prompts: Sequence[Prompt]
    samples_per_prompt: int
    starts: Sequence[SampleStart] = ()
    """The samples to generate; empty means all, from the start."""
    stream_tokens: bool = False
    """Whether to send tokens as they are generated instead of finished samples."""
    keeps_responses: bool = False
    """Whether workers keep the responses to prompts with an id if the gateway is lost, for a repetition of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One finished sample of a batch."""

    prompt_index: int
    sample_index: int
    response: TokenChunk
    finished_count: int
    total_count: int
    elapsed_s: float
    """Seconds since the start of the batch."""


def sample_of(prompt: Prompt, index: int) -> Prompt:
    """Return sample `index` of a prompt. Each sample gets its own seed, so that a seeded batch has distinct samples."""
    seed = prompt.sampling.seed
    return replace(
        prompt,
        request_id=sample_id(prompt.request_id, index),
        sampling=prompt.sampling if seed is None else replace(prompt.sampling, seed=(seed + index) % SEEDS),
    )


def require_samples(prompts: Sequence[Prompt], samples_per_prompt: int) -> None:
    """
    Check that a batch is not empty.

    Raises:
        InvalidRequestError: It has no prompts or no samples.
    """
    if not prompts:
        raise InvalidRequestError("prompts is empty; accepted: at least one", field="prompts")
    if samples_per_prompt < 1:
        raise InvalidRequestError(
            f"samples_per_prompt is {samples_per_prompt}; accepted: at least 1", field="samples_per_prompt"
        )


def at_index(error: InvalidRequestError, index: int) -> InvalidRequestError:
    """Rename an error's field to that of a prompt in a batch: `prompt.token_ids` becomes `prompts[3].token_ids`."""
    field = error.field.removeprefix("prompt.")
    field_in_batch = f"prompts[{index}].{field}"
    return InvalidRequestError(error.message.replace(error.field, field_in_batch, 1), field=field_in_batch)
