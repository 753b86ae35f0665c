"""The requests of the campaign, seeded so that each has exactly one correct response."""

import itertools
import random
from dataclasses import dataclass, replace

from countdown.task import draw_problems
from countdown.vocabulary import prompt_ids
from tlt_common.domain.prompt import SamplingParams
from tlt_common.domain.response import TokenChunk

LOGPROB_TOLERANCE = 1e-3
"""Float32 logprobs differ by less between batch shapes and arms; tests/engine/test_exact.py holds this."""


GROUP = 4
"""Requests that can also be sent as one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. Requests of the same number are the same."""

    number: int
    prompt_ids: tuple[int, ...]
    sampling: SamplingParams


def draw(groups: int, *, seed: int, min_tokens: int, max_tokens: int) -> tuple[Request, ...]:
    """
    Return groups of GROUP requests, whose lengths have a long tail.

    The requests of a group share their sampling parameters and have consecutive seeds, so that a group is also a batch.
    """
    choices = random.Random(seed)
    requests = []
    for number, problem in enumerate(draw_problems(groups * GROUP, seed=seed)):
        if number % GROUP == 0:
            sampling = SamplingParams(
                max_new_tokens=min(max_tokens, int(min_tokens * choices.paretovariate(1.2))),
                temperature=choices.choice((1.0, 1.0, 0.7, 0.0)),
                ignore_eos=True,
                seed=1000 * seed + number,
            )
        seeded = replace(sampling, seed=1000 * seed + number)
        requests.append(Request(number=number, prompt_ids=tuple(prompt_ids(problem.prompt)), sampling=seeded))
    return tuple(requests)


def difference(answer: TokenChunk, expected: TokenChunk) -> str:
    """Describe the first difference between a response and the undisturbed one; empty if they are equal."""
    if answer.finish_reason is not expected.finish_reason:
        return f"ended by {answer.finish_reason}, undisturbed by {expected.finish_reason}"
    for place, (got, wanted) in enumerate(zip(answer.token_ids, expected.token_ids, strict=False)):
        if got != wanted:
            return f"token {place} of {len(expected.token_ids)} is {got}, undisturbed {wanted}"
    if len(answer.token_ids) != len(expected.token_ids):
        return f"has {len(answer.token_ids)} tokens, undisturbed {len(expected.token_ids)}"
    return _numbers(answer, expected)


def _numbers(answer: TokenChunk, expected: TokenChunk) -> str:
    if not len(answer.token_ids) == len(answer.logprobs) == len(answer.policy_versions):
        counts = f"{len(answer.logprobs)} logprobs, {len(answer.policy_versions)} versions"
        return f"has {len(answer.token_ids)} tokens, but {counts}"
    for place, (got, wanted) in enumerate(zip(answer.logprobs, expected.logprobs, strict=True)):
        if not abs(got - wanted) <= LOGPROB_TOLERANCE:  # also for NaN
            return f"logprob {place} is {got:.6f}, undisturbed {wanted:.6f}"
    if any(later < earlier for earlier, later in itertools.pairwise(answer.policy_versions)):
        return "goes back to an older policy version"
    return ""
