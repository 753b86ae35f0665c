"""
Speculation is lossless in engines of other kinds: each has a scene of its own.

Apart from the suite's own engine, so that they run beside it.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine import models
from tests.lossless import exact, judge
from tests.lossless.cases import FILTERED
from tests.lossless.goodness import Fit
from tests.lossless.scenes import BlocksResult, DrawnResult, HalfResult, HeadResult

pytestmark = [pytest.mark.engine, pytest.mark.timeout(7200)]


def test_drafts_without_a_state_to_continue_from_change_nothing(play: Callable[..., Any]) -> None:
    result: DrawnResult = play("forgotten")
    masses = judge.expected(models.load(result.target), result.drawn)
    fits = {window: judge.fits(result.drawn, window, masses) for window in exact.WINDOWS}
    level = judge.LEVEL / sum(map(len, fits.values()))
    found = {(window, setting): fit for window, each in fits.items() for setting, fit in each.items()}
    assert not {case: fit for case, fit in found.items() if fit.p_value < level}


def test_heads_that_checkpoints_bring_change_nothing(play: Callable[..., Any]) -> None:
    """All arms in turn, with the checkpoint's head and with those that take its place."""
    results: dict[str, HeadResult] = play("heads")
    assert results.keys() == {"glm4_moe", "mimo"}
    fits = dict[tuple[str, str, str, str], Fit]()
    for family, result in results.items():
        masses = judge.expected(models.load(result.target), result.drawn["own"])
        for name, drawn in result.drawn.items():
            for window in exact.WINDOWS:
                found = judge.fits(drawn, window, masses)
                fits |= {(family, name, window, setting): fit for setting, fit in found.items()}
        for name in ("own", "good"):
            assert min(drawn.accept_length for drawn in result.drawn[name].values()) > 1.2, (family, name)
    level = judge.LEVEL / len(fits)
    assert not {case: fit for case, fit in fits.items() if fit.p_value < level}


def test_in_bfloat16_drafts_leave_the_distribution_as_it_is(play: Callable[..., Any]) -> None:
    """A path may part from one without drafts there, since rounding depends on how many tokens a kernel computes."""
    result: HalfResult = play("half")
    model = models.load(result.target).bfloat16()
    # A filter's edge may run between tokens of nearly equal logits, which SGLang and transformers round differently.
    exactly = [setting for setting in result.plain if setting not in FILTERED]
    masses, fits = judge.expected(model, exactly), dict[tuple[str, str, str], Fit]()
    for way, drawn in (("plain", result.plain), ("drafted", result.drafted)):
        compared = {setting: drawn[setting] for setting in exactly}
        for window in exact.WINDOWS:
            fits |= {(way, window, setting): fit for setting, fit in judge.fits(compared, window, masses).items()}
    fits |= {("both", "1-4", setting): fit for setting, fit in judge.compared(result.drafted, result.plain).items()}
    level = judge.LEVEL / len(fits)
    assert not {case: fit for case, fit in fits.items() if fit.p_value < level}
    assert min(drawn.accept_length for drawn in result.drafted.values()) > 1.2


@pytest.mark.parametrize(("kind", "least"), [("dflash", 1.1), ("dspark", 1.3)])
def test_blocks_leave_the_distribution_as_it_is(play: Callable[..., Any], kind: str, least: float) -> None:
    """Drafts of DFlash do not know the one before them, so that fewer are kept."""
    result: BlocksResult = play(kind)
    masses = judge.expected(models.load(result.target), next(iter(result.drawn.values())))
    fits = {
        (way, window, setting): fit
        for way, drawn in result.drawn.items()
        for window in exact.WINDOWS
        for setting, fit in judge.fits(drawn, window, masses).items()
    }
    level = judge.LEVEL / len(fits)
    assert not {case: fit for case, fit in fits.items() if fit.p_value < level}
    assert min(drawn.accept_length for drawn in result.drawn["good, block-7"].values()) > least
