"""How TRL's prompts become groups of siblings."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.client import SamplingParams
from tlt_common.integrations.openrlhf import TltEngine
from tlt_common.integrations.siblings import grouped
from tlt_common.integrations.trl import TltAsyncRollouts, TltRollouts

A, B, C = [1, 2], [3], [4, 5]


@pytest.mark.parametrize(
    ("prompts", "generations", "asked", "samples"),
    [
        ([A] * 4 + [B] * 4, 4, [A, B], 4),
        ([A] * 4 + [B] * 8 + [C] * 4, 4, [A, B, B, C], 4),  # drawn twice in a row
        ([A] * 8, 4, [A, A], 4),
        ([A] * 2 + [B] * 4 + [C] * 2, 4, [A, B, B, C], 2),  # groups that begin and end with other processes
        ([A, B, C], 4, [A, B, C], 1),
    ],
)
def test_groups_are_as_large_as_all_prompts_allow(
    prompts: Sequence[list[int]], generations: int, asked: Sequence[list[int]], samples: int
) -> None:
    assert grouped(prompts, generations) == (list(asked), samples)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.integers(1, 8))
def test_responses_come_back_in_the_order_of_trls_prompts(problems: list[int], generations: int) -> None:
    prompts = [[problem] for problem in problems for _ in range(generations)]
    asked, samples = grouped(prompts, generations)
    assert [prompt for prompt in asked for _ in range(samples)] == prompts
    assert samples == generations


GIVEN: dict[str, Any] = {
    "dataset": (),
    "tokenizer": None,
    "reward_funcs": [len],
    "num_generations": 2,
    "sampling": SamplingParams(),
}


@pytest.mark.parametrize("make", [TltRollouts, partial(TltAsyncRollouts, **GIVEN), TltEngine])
def test_an_option_that_no_client_has_is_refused_at_once(make: Callable[..., object]) -> None:
    with pytest.raises(TypeError, match="tokne"):
        make("127.0.0.1:1", tokne="x")
