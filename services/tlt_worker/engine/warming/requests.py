"""Warm-up requests: every arm, class of batch sizes and setting that changes the computation. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any, Final

from tlt_common.domain.arm import Arm
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams

CACHE_KEY: Final = "warm-up"
"""No caller shares what these requests leave in the prefix cache."""
TOKENS: Final = 6
"""Of a response: several rounds even if every draft is accepted."""
PAIR: Final = 2
"""Requests of the same setting."""
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


def batch_sizes(largest: int) -> tuple[int, ...]:
    """
    Return a batch size of each class that compilers distinguish: 1, multiples of 16 and others, and for the latter two
    each next power of two, which is a constant of SGLang's kernels (`next_power_of_2(batch_size)`, cache_locs.py).
    """
    powers = (2**power for power in range(largest.bit_length()))
    below = (size - 1 for size in (2**power for power in range(4, largest.bit_length() + 1)))
    return tuple(sorted({size for size in (*powers, *below, largest) if size <= largest}))


def warm_up_requests(largest: Mapping[Arm, int], *, vocabulary: int, context: int) -> Iterator[Together]:
    """
    Yield groups of warm-up requests: each setting alone, then combined with others.

    Args:
        largest: Arms to warm up, with the largest number of requests at which each runs.
        vocabulary: Number of tokens.
        context: Maximum length of prompt and response.
    """
    tokens = max(1, min(TOKENS, context // 2))
    named = list(SETTINGS.items())
    for arm, most in largest.items():
        for place, (name, settings) in enumerate(named):
            prompt = _prompt(f"{arm.name}-{name}", place, settings, vocabulary, context - tokens, tokens)
            yield Together(arm=arm, prompts=(prompt,))
        for batch in batch_sizes(most)[1:]:
            # Twice the same setting, then all: a mixed batch hides what a uniform one would use.
            uniform = [[each] * batch for each in named] if batch == PAIR else []
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
