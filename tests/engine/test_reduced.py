"""EAGLE drafts from some rows of the target's head: those that responses use."""

import numpy as np
import pytest

from tests.engine.host import Play
from tests.engine.scenes.answers import accepted, tokens
from tests.engine.scenes.reduced import VOCABULARY, Reduced, accept_length, reduced, reduced_ranks
from tests.lossless import goodness

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 1e-4


@pytest.fixture(scope="module")
def result(play: Play) -> Reduced:
    return play(reduced)


def test_greedy_answers_are_the_targets(result: Reduced) -> None:
    assert tokens(result.in_turn) == tokens(result.off)
    assert accepted(result.in_turn) > 0


def test_a_seed_gives_the_same_tokens_under_every_arm(result: Reduced) -> None:
    assert tokens(result.seeded["chain-3"]) == tokens(result.seeded["off"])
    assert tokens(result.seeded["chain-7"]) == tokens(result.seeded["off"])
    assert tokens(result.seeded["tree-3x4-8"]) == tokens(result.seeded["off"])
    assert accepted(result.seeded["chain-3"]) > 0


@pytest.mark.parametrize("arm", ["chain-3", "tree-3x4-8"])
def test_responses_keep_their_distribution(result: Reduced, arm: str) -> None:
    counts = goodness.count(np.array(result.sampled[arm])[:, 1:], VOCABULARY)
    assert goodness.fit(counts, result.exact).p_value > LEVEL


def test_the_head_covers_what_responses_use(result: Reduced) -> None:
    assert accept_length(result.later) > accept_length(result.first) + 0.3


def test_rows_follow_new_weights_of_the_target(result: Reduced) -> None:
    assert tokens(result.updated) == tokens(result.updated_off)
    assert accept_length(result.updated) > 1.3  # by rows of the old weights: 1.0


def test_ranks_cover_tokens_of_their_shards(play: Play) -> None:
    found = play(reduced_ranks)
    for arm in ("chain-7", "tree-3x4-8"):
        assert tokens(found[arm]) == tokens(found["off"])
        assert accept_length(found[arm]) > 1.5
