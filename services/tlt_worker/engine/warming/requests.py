"""The requests of a warm-up: every arm, class of batch sizes and setting that changes what is computed. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

from tlt_common.domain.arm import Arm
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams

BATCHES: Final = (1, 2, 16)
"""Requests at once: compilers distinguish 1, multiples of 16 and other sizes."""
CACHE_KEY: Final = "warm-up"
"""No caller shares what these requests leave in the prefix cache."""
TOKENS: Final = 6
"""Of a response: several rounds even if every draft is accepted."""
LENGTHS: Final = (16, 5, 1)
"""Tokens of prompts, in turn, of the same classes."""

SETTINGS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "greedy": {"temperature": 0.0},
    "filters": {"top_p": 0.9, "top_k": 40, "min_p": 0.02},
    "seed": {"seed": 1, "temperature": 0.7},
    "penalties": {"frequency_penalty": 0.2, "presence_penalty": 0.2, "repetition_penalty": 1.1, "min_new_tokens": 1},
    "raw": {"logprobs": LogprobKind.RAW},
    "truncated": {"logprobs": LogprobKind.TRUNCATED, "top_p": 0.8, "seed": 2},
}
"""Sampling settings that use something of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Requests that run at the same time, under one arm."""

    arm: Arm
    prompts: tuple[Prompt, ...]


def warm_up_requests(arms: Sequence[Arm], *, vocabulary: int, context: int, max_running: int) -> Iterator[Together]:
    """Yield the requests, a few at a time: each setting alone, then together with others."""
    tokens = max(1, min(TOKENS, context // 2))
    named = list(SETTINGS.items())
    for arm in arms:
        for place, (name, settings) in enumerate(named):
            prompt = _prompt(f"{arm.name}-{name}", place, settings, vocabulary, context - tokens, tokens)
            yield Together(arm=arm, prompts=(prompt,))
        for batch in sorted({min(batch, max_running) for batch in BATCHES} - {1}):
            # Twice the same setting, then all: a mixed batch hides what a uniform one would use.
            uniform = [[each] * batch for each in named] if batch == BATCHES[1] else []
            for group, chosen in enumerate([*uniform, list(islice(cycle(named), batch))]):
                yield Together(
                    arm=arm,
                    prompts=tuple(
                        _prompt(
                            f"{arm.name}-{batch}-{group}-{place}", place, settings, vocabulary, context - tokens, tokens
                        )
                        for place, (_, settings) in enumerate(chosen)
                    ),
                )


def _prompt(name: str, place: int, settings: dict[str, Any], vocabulary: int, longest: int, tokens: int) -> Prompt:
    length = max(1, min(LENGTHS[place % len(LENGTHS)], longest))
    # Not the same prompt each time, whose states would be found in the prefix cache.
    first = sum(name.encode())
    ids = tuple((first + 7 * at) % vocabulary for at in range(length))
    sampling = SamplingParams(max_new_tokens=tokens, ignore_eos=True, **settings)
    rid = RequestId(f"warm-up-{name}")
    return Prompt(request_id=rid, token_ids=ids, sampling=sampling, capture=False, cache_key=CACHE_KEY)
