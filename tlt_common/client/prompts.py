"""Converts a caller's arguments to prompts."""

from collections.abc import Sequence
from dataclasses import replace

from tlt_common.domain.batch import SEEDS
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams, Speculation
from tlt_common.domain.request_ids import new_request_id


def shifted(sampling: SamplingParams, offset: int) -> SamplingParams:
    """Add an offset to the seed, if there is one. The gateway adds the index of the sample."""
    return sampling if sampling.seed is None else replace(sampling, seed=(sampling.seed + offset) % SEEDS)


def new_prompt(
    token_ids: Sequence[int],
    sampling: SamplingParams,
    request_id: str,
    speculation: Speculation,
    capture: bool,
    policy_version: int | None,
    max_staleness: int | None = None,
    session_id: str = "",
    *,
    prefix_ids: Sequence[int] = (),
    begun_version: int | None = None,
    cache_salt: str = "",
    routed_experts_start: int | None = None,
    prompt_logprobs_start: int | None = None,
) -> Prompt:
    """Return a prompt, with a new id if none is given."""
    return Prompt(
        request_id=RequestId(request_id) if request_id else new_request_id(),
        token_ids=tuple(token_ids),
        sampling=sampling,
        speculation=speculation,
        capture=capture,
        policy_version=None if policy_version is None else PolicyVersion(policy_version),
        max_staleness=max_staleness,
        session_id=session_id,
        prefix_token_ids=tuple(prefix_ids),
        begun_version=None if begun_version is None else PolicyVersion(begun_version),
        cache_salt=cache_salt,
        routed_experts_start=routed_experts_start,
        prompt_logprobs_start=prompt_logprobs_start,
    )
