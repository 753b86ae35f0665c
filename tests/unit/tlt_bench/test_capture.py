"""Figures of `tlt bench capture` from timings."""

import pytest

from tlt_bench.capture.command import LEAST_SHARE, Pairs, compared
from tlt_bench.engines.commands import Timing

TOKENS = 1000


def timing(seconds: float) -> Timing:
    return Timing(
        seconds=seconds, window_began_s=0.0, window_s=seconds, window_cpu_s=seconds, window_tokens=TOKENS,
        window_rounds=1, tokens=(TOKENS,), rounds=(1,), at_s=(seconds,), chunk_tokens=(TOKENS,),
    )  # fmt: skip


def pairs(*added_s: float) -> Pairs:
    return Pairs(off=[timing(1.0) for _ in added_s], on=[timing(1.0 + each) for each in added_s])


def test_costs_are_compared_per_token() -> None:
    found = compared(pairs(0.01, 0.02, 0.03), pairs(0.4, 0.6, 0.5)).figures
    assert found["capture_added_us_per_token"] == pytest.approx(20.0)
    assert found["returned_added_us_per_token"] == pytest.approx(500.0)
    assert found["vs_return_hidden_states"] == pytest.approx(25.0)


@pytest.mark.parametrize("added_s", [-0.1, 0.0, 1e-5])
def test_what_is_less_than_noise_counts_as_noise(added_s: float) -> None:
    found = compared(pairs(added_s), pairs(0.5)).figures
    assert found["vs_return_hidden_states"] == pytest.approx(0.5 / LEAST_SHARE)
