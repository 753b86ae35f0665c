"""CPU seconds by stage, and what a benchmark makes of them."""

import json
from itertools import count
from pathlib import Path

import pytest

from tlt_bench.arms.profile import _judge, _taken, _whole
from tlt_bench.ratios import Figures
from tlt_bench.stages.clock import StageClock


def test_a_stage_is_charged_what_it_takes_beside_those_within() -> None:
    ticks = count()
    clock = StageClock(now_s=lambda: float(next(ticks)))  # each look at the clock takes a second
    clock.take()

    def verify() -> str:
        return str(clock.run("sample", lambda: clock.run("filter", lambda: "token")))

    assert clock.run("verify", verify) == "token"
    assert clock.take() == {
        (): (0, 2.0),
        ("verify",): (1, 2.0),
        ("verify", "sample"): (1, 2.0),
        ("verify", "sample", "filter"): (1, 1.0),
    }
    assert clock.take() == {(): (0, 1.0)}


def test_a_stage_that_fails_ends() -> None:
    clock = StageClock()
    with pytest.raises(ZeroDivisionError):
        clock.run("draft", lambda: 1 / 0)
    clock.take()
    clock.run("verify", lambda: None)
    assert set(clock.take()) == {(), ("verify",)}


def test_rounds_of_the_arm_with_all_requests_count(tmp_path: Path) -> None:
    lines = tmp_path / "rounds"
    stages = {"": (0, 0.001), "launch/draft": (1, 0.002), "launch/draft/tree": (1, 0.001), "launch/verify": (1, 0.004)}
    rounds = [{"arm": arm, "requests": ["a", "b"][:batch], "stages": stages} for arm, batch in [
        ("off", 2), ("chain-7", 2), ("chain-7", 2), ("chain-7", 1), ("chain-7", 2), ("chain-7", 2),
    ]]  # fmt: skip
    lines.write_text("\n".join(map(json.dumps, rounds)))
    whole = _whole(_taken(lines), "chain-7", 2)
    assert len(whole) == 2
    assert not lines.exists()
    found = Figures()
    _judge(found, "chain-7_bs2", whole)
    assert found.figures == {
        "profile_round_chain-7_bs2_ms": pytest.approx(8.0),
        "profile_draft_chain-7_bs2_ms": pytest.approx(3.0),
        "profile_verify_chain-7_bs2_ms": pytest.approx(4.0),
    }
    assert "launch/draft/tree 1.00" in found.notes["profile_round_chain-7_bs2_ms"]
