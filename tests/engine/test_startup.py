"""What an engine captures of responses that an earlier run has made."""

import pytest

from tests.engine.host import Play
from tests.engine.scenes import startup
from tests.engine.scenes.startup import Learned

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def learned(play: Play) -> list[Learned]:
    return play(startup.computed)


def test_every_state_of_a_response_is_captured_with_its_next_token(learned: list[Learned]) -> None:
    assert [one.pieces for one in learned] == [4, 1]
    for one in learned:
        assert one.missing == 0
        assert one.off_by < 1e-3
        assert one.is_of_prompt


def test_only_the_last_state_of_a_piece_is_followed_by_a_token_of_its_own(learned: list[Learned]) -> None:
    for one in learned:
        assert one.other_tokens <= one.pieces
