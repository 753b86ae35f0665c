"""Accept lengths of two drafters on fresh responses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from countdown.fresh import FreshScores, PromptScore, accept_length, adapted_over_frozen

SHARES = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(tuple)
PROMPTS = st.lists(st.builds(PromptScore, tokens=st.integers(1, 1000), accepted=SHARES), min_size=1, max_size=8).map(
    tuple
)


def scores(frozen: tuple[PromptScore, ...], adapted: tuple[PromptScore, ...]) -> FreshScores:
    return FreshScores(temperature=1.0, frozen=frozen, adapted=adapted)


def test_a_chain_yields_what_survives_and_the_bonus_token() -> None:
    assert accept_length([PromptScore(tokens=10, accepted=(0.5, 0.5, 0.0))]) == 1.0 + 0.5 + 0.25


def test_prompts_weigh_as_many_tokens_as_their_responses_have() -> None:
    prompts = [PromptScore(tokens=30, accepted=(1.0,)), PromptScore(tokens=10, accepted=(0.0,))]
    assert accept_length(prompts) == 1.75


@given(PROMPTS)
def test_an_accept_length_is_between_one_token_and_the_whole_chain(prompts: tuple[PromptScore, ...]) -> None:
    assert 1.0 <= accept_length(prompts) <= 4.0 + 1e-9


@given(PROMPTS)
def test_a_drafter_is_as_good_as_itself(prompts: tuple[PromptScore, ...]) -> None:
    assert adapted_over_frozen(scores(prompts, prompts)) == (1.0, 1.0, 1.0)


def test_the_interval_covers_the_ratio_and_pairs_prompts() -> None:
    frozen = tuple(PromptScore(tokens=100, accepted=(share,)) for share in (0.2, 0.4, 0.6, 0.8))
    better = tuple(PromptScore(tokens=100, accepted=(1.1 * score.accepted[0],)) for score in frozen)
    ratio, low, high = adapted_over_frozen(scores(frozen, better))
    assert 1.0 < low <= ratio <= high < 1.1
    assert ratio == pytest.approx(1.55 / 1.5)
