"""A spot trainer's EAGLE-3 drafters, trained on what an engine captures, speed it up and change no response."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes.learning import DRAFT_TOKENS, Learned, learned

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def result(play: Play) -> Learned:
    return play(learned)


def test_drafts_are_accepted_more_often_the_longer_it_trained(result: Learned) -> None:
    assert result.accepted > 1.0
    assert result.accepted > result.first_accepted


def test_responses_stay_the_targets(result: Learned) -> None:
    assert result.drafted == result.off


def test_it_drafts_what_the_target_says(result: Learned) -> None:
    assert len(result.tokens) == DRAFT_TOKENS
    assert len(result.said & set(result.tokens)) == min(DRAFT_TOKENS, len(result.said))
