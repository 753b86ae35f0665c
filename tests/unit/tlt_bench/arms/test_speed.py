"""Figures of arms from what engines measured."""

import pytest

from tlt_bench.arms.speed import LENGTHS, _headline, _sampled, _seeded, _speedup
from tlt_bench.engines.commands import Timing
from tlt_bench.ratios import Figures


def timing(*, rate: float, round_s: float, accept: int = 1) -> Timing:
    """One request for a second."""
    rounds = round(1 / round_s)
    return Timing(
        seconds=1.0,
        window_began_s=0.0,
        window_s=1.0,
        window_cpu_s=1.0,
        window_tokens=round(rate),
        window_rounds=rounds,
        tokens=(1 + accept * rounds,),
        rounds=(1 + rounds,),
        at_s=(),
        chunk_tokens=(),
    )


def test_the_bound_is_the_accept_length_over_what_a_round_with_drafts_costs() -> None:
    found = Figures()
    sides = {
        "off": [timing(rate=20, round_s=0.05)],
        "chain-7": [timing(rate=60, round_s=0.1, accept=6)],
        "chain-3": [timing(rate=40, round_s=0.1, accept=4)],
        "ngram-7": [timing(rate=25, round_s=0.05, accept=1)],
    }
    _speedup(found, sides, "bs1")
    assert found.figures["speedup_bs1"] == 3.0
    assert found.figures["speed_chain-3_bs1"] == 2.0
    assert found.figures["bound_bs1"] == pytest.approx(6 / (1 + (0.1 - 0.05) / 0.05))
    assert found.figures["bound_share_bs1"] == pytest.approx(1.0)
    assert found.figures["draft_rounds_chain-7_bs1"] == pytest.approx(1.0)
    assert "draft_rounds_chain-3_bs1" not in found.figures, "nothing verified as many tokens without a drafter"
    assert found.notes["speedup_bs1"].startswith("chain-7")


def test_retrieval_is_no_learned_arm() -> None:
    found = Figures()
    _speedup(
        found,
        {"off": [timing(rate=20, round_s=0.05)], "chain-3": [timing(rate=30, round_s=0.1)],
         "ngram-7": [timing(rate=90, round_s=0.1)]},
        "bs1",
    )  # fmt: skip
    assert found.figures["speedup_bs1"] == 1.5
    assert "bound_bs1" not in found.figures, "nothing verified as many tokens without a drafter"


def test_sampled_drafts_are_compared_over_all_batch_sizes() -> None:
    found = Figures()
    for batch, gain in ((1, 2), (4, 3)):
        sides = {}
        for steps in LENGTHS:
            sides[f"chain-{steps}"] = [timing(rate=10 * gain, round_s=0.1, accept=2 * gain)]
            sides[f"chain-{steps}-top1"] = [timing(rate=10, round_s=0.1, accept=2)]
        _sampled(found, sides, f"_bs{batch}")
        seeded = {f"chain-{steps}": [timing(rate=9 * gain, round_s=0.1, accept=gain)] for steps in LENGTHS}
        _seeded(found, sides, seeded, f"_bs{batch}")
    _headline(found)
    assert found.figures["seeded_vs_sampled_speed"] == pytest.approx(0.9)
    assert found.figures["seeded_vs_sampled_accept_3"] == pytest.approx(0.5)
    assert found.figures["sampled_vs_top1_accept_3"] == 2.5
    assert found.figures["sampled_vs_top1_speed"] == 2.5
    assert found.spread["sampled_vs_top1_accept"] == (2.0, 3.0)
