"""Variants of EAGLE drafters draft in an engine what the trainer computes, and change no response."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import variants
from tests.engine.scenes.answers import tokens
from tests.engine.scenes.variants import ARMS, Variant
from tests.engine.test_eagle3 import require_equal

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module", params=[variants.eagle_of_two_layers, variants.eagle3_with_norms])
def result(play: Play, request: pytest.FixtureRequest) -> Variant:
    found: Variant = play(request.param)
    return found


def test_drafts_are_the_trainers_when_arms_take_turns(result: Variant) -> None:
    require_equal(result.in_turn)


def test_another_drafter_takes_its_place(result: Variant) -> None:
    require_equal(result.swapped)


def test_drafts_pay(result: Variant) -> None:
    assert sum(map(len, tokens(result.swapped.answers))) / sum(result.swapped.rounds) > 1.5


def test_a_seed_gives_the_same_tokens_under_every_arm(result: Variant) -> None:
    assert result.seeded.keys() == set(ARMS)
    assert len(set(tokens(result.seeded.values()))) == 1
