"""Figures of the bandit and its arms by batch size."""

import pytest

from tlt_bench.arms.batches import BANDIT, FULL, QUICK, figures_at
from tlt_bench.engines.commands import Timing


def timing(*, tokens: int, seconds: float, cpu_s: float) -> Timing:
    """A window of one request."""
    return Timing(
        seconds=seconds,
        window_began_s=0.0,
        window_s=seconds,
        window_cpu_s=cpu_s,
        window_tokens=tokens,
        window_rounds=10,
        tokens=(1 + tokens,),
        rounds=(11,),
        at_s=(),
        chunk_tokens=(),
    )


def test_the_bandit_is_compared_with_off_and_with_the_best_arm() -> None:
    found = figures_at(
        8,
        {
            BANDIT: [timing(tokens=95, seconds=1.0, cpu_s=1.0), timing(tokens=99, seconds=1.0, cpu_s=1.0)],
            "off": [timing(tokens=100, seconds=1.0, cpu_s=2.0)] * 2,
            "chain-3": [timing(tokens=50, seconds=1.0, cpu_s=0.5)] * 2,
        },
    )
    assert found.notes["best_arm_bs8"] == "off"
    assert found.notes["best_arm_cpu_bs8"] == "chain-3"
    assert found.figures["bandit_over_off_bs8"] == found.figures["bandit_over_best_bs8"] == pytest.approx(0.97)
    assert found.spread["bandit_over_off_bs8"] == pytest.approx((0.95, 0.99))
    assert found.figures["chain-3_over_off_bs8"] == 0.5
    assert found.figures["chain-3_over_off_cpu_bs8"] == 2.0
    assert found.figures["bandit_over_best_cpu_bs8"] == pytest.approx(0.97)
    assert found.figures["chain-3_accept_bs8"] == 5.0


def test_the_quick_run_has_the_smallest_and_a_large_batch() -> None:
    assert tuple(QUICK.tokens) == (1, 8)
    assert tuple(FULL.tokens) == (1, 4, 8, 16)
