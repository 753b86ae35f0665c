"""Rounds are compared with those without drafts that ran at the same speed of the machine."""

from pathlib import Path

import pytest

from tlt_bench.arms.same_pace import NEAREST, TraceReader, over_off
from tlt_common.bandit.round_trace import TracedRound, header, line_of
from tlt_common.domain.arm import OFF, Arm, chain


def played(arm: Arm, elapsed_s: float, *accepted: int) -> TracedRound:
    return TracedRound(at_s=0.0, arm=arm, accepted=accepted, elapsed_s=elapsed_s, drafted=sum(accepted))


def test_a_machine_that_slows_down_changes_nothing() -> None:
    plain = [played(OFF, 0.1, 0, 0)] * 10 + [played(OFF, 0.2, 0, 0)] * 10
    assert over_off(plain) == pytest.approx(1.0, abs=0.02)


def test_drafts_are_charged_at_the_pace_they_ran_at() -> None:
    fast, slow = [played(OFF, 0.1, 0, 0)] * NEAREST, [played(OFF, 0.2, 0, 0)] * NEAREST
    dear = played(chain(3), 0.4, 0, 0)  # two rounds' time, for as many tokens as one
    assert over_off([*slow, dear, *slow]) == pytest.approx((2 * NEAREST + 1) / (2 * NEAREST + 2))
    worth = played(chain(3), 0.2, 3, 1)  # two rounds' time, for as many tokens as three
    assert over_off([*fast, worth, *fast]) == pytest.approx((2 * NEAREST + 3) / (2 * NEAREST + 2))


def test_without_rounds_to_compare_with_nothing_is_said() -> None:
    assert over_off([played(OFF, 0.1, 0)] * (NEAREST - 1)) is None


def test_each_reading_returns_what_is_new_at_a_batch_size(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    reader = TraceReader(path)
    assert reader.new(2) == []
    path.write_text(f"{header()}\n{line_of(played(OFF, 0.1, 0, 0))}\n{line_of(played(OFF, 0.1, 0))}\n")
    assert [each.batch for each in reader.new(2)] == [2]
    with path.open("a") as file:
        file.write(f"{line_of(played(chain(3), 0.3, 1, 0))}\n")
    assert [each.arm for each in reader.new(2)] == [chain(3)]
    assert reader.new(2) == []
