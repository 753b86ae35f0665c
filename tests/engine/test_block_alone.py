"""`engine.drafter_architecture: block` alone is enough, also in bfloat16."""

import pytest

from tests.engine import models
from tests.engine.host import Play
from tests.engine.scenes.block_alone import EARLY_TOKENS, SETTINGS, Alone, alone
from tests.lossless import exact, judge

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def result(play: Play) -> Alone:
    return play(alone)


def test_an_engine_answers_before_there_is_a_drafter(result: Alone) -> None:
    assert len(result.early.token_ids) == EARLY_TOKENS


def test_a_drafter_of_the_standard_format_drafts(result: Alone) -> None:
    assert min(drawn.accept_length for drawn in result.drafted.values()) > 1.2


def test_in_bfloat16_blocks_leave_the_distribution_as_it_is(result: Alone) -> None:
    """A path may part from one without drafts there, since rounding depends on how many tokens a kernel computes."""
    masses = judge.expected(models.load(result.target).bfloat16(), SETTINGS)
    fits = {
        (way, window, setting): fit
        for way, drawn in (("plain", result.plain), ("drafted", result.drafted))
        for window in exact.WINDOWS
        for setting, fit in judge.fits(drawn, window, masses).items()
    }
    fits |= {("both", "1-4", setting): fit for setting, fit in judge.compared(result.drafted, result.plain).items()}
    level = judge.LEVEL / len(fits)
    assert not {case: fit for case, fit in fits.items() if fit.p_value < level}
