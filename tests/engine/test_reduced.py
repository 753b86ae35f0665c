"""Drafters draft from some rows of their target's head: those that responses use."""

import numpy as np
import pytest

from tests.engine.host import Play, Scene
from tests.engine.scenes import reduced
from tests.engine.scenes.answers import accepted, tokens
from tests.engine.scenes.reduced import VOCABULARY, Reduced, accept_length
from tests.lossless import goodness
from tlt_common.domain.response import TokenChunk

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

LEVEL = 1e-4


@pytest.fixture(scope="module", params=[reduced.eagle, reduced.glm, reduced.mimo, reduced.dflash])
def result(play: Play, request: pytest.FixtureRequest) -> Reduced:
    found: Reduced = play(request.param)
    return found


def test_greedy_answers_are_the_targets(result: Reduced) -> None:
    assert tokens(result.in_turn) == tokens(result.off)
    assert accepted(result.in_turn) > 0


def test_a_seed_gives_the_same_tokens_under_every_arm(result: Reduced) -> None:
    for arm, answers in result.seeded.items():
        assert tokens(answers) == tokens(result.seeded["off"])
        assert (accepted(answers) > 0) == (arm != "off")


def test_responses_keep_their_distribution(result: Reduced) -> None:
    for sampled in result.sampled.values():
        counts = goodness.count(np.array(sampled)[:, 1:], VOCABULARY)
        assert goodness.fit(counts, result.exact).p_value > LEVEL


def test_the_head_covers_what_responses_use(result: Reduced) -> None:
    assert accept_length(result.later) - 1 > 1.2 * (accept_length(result.first) - 1)


def test_rows_follow_new_weights_of_the_target(result: Reduced) -> None:
    assert tokens(result.updated) == tokens(result.updated_off)
    assert accept_length(result.updated) > 1.05  # by rows of the old weights: 1.0


@pytest.mark.parametrize("scene", [reduced.eagle_ranks, reduced.mimo_ranks, reduced.dspark_ranks])
def test_ranks_cover_tokens_of_their_shards(play: Play, scene: Scene[dict[str, list[TokenChunk]]]) -> None:
    found = play(scene)
    for answers in found.values():
        assert tokens(answers) == tokens(found["off"])
    assert all(accept_length(answers) > 1.5 for arm, answers in found.items() if arm != "off")
