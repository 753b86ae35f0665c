"""Tails are judged by what responses had left indeed, and moves that delay steps end."""

import pytest

from tests.unit.tlt_gateway.consolidation.views import PACE, request, view, worker
from tlt_gateway.consolidation.ends import ends_s
from tlt_gateway.consolidation.verdict import LEAST_TAILS, TailVerdict, own, without_moves_s

SHARED = view([worker(0), worker(1)], [request(0, 0, 500), request(1, 1, 9000), request(2, 1, 100)])


def test_without_moves_a_tail_takes_what_its_responses_had_left() -> None:
    names = [one.name for one in own(SHARED, "g")]
    actual = dict(zip(names, (20_000.0, 300.0, 100.0), strict=True))
    assert without_moves_s(SHARED, actual) == pytest.approx(ends_s([20_000], [5000], PACE)[0])
    assert without_moves_s(SHARED, {names[1]: 300.0}) == pytest.approx(ends_s([300, 100], [5000, 5000], PACE)[0])
    assert own(SHARED, "other") == ()


def test_moves_that_delay_several_tails_end_for_good() -> None:
    verdict = TailVerdict(slack=0.0)
    for tail in range(LEAST_TAILS):
        assert not verdict.is_off
        assert verdict.judge(actual_s=120.0, without_s=100.0) == pytest.approx(1.2), tail
    assert verdict.is_off
    verdict.judge(actual_s=1.0, without_s=100.0)
    assert verdict.is_off


@pytest.mark.parametrize(("slack", "actual_s"), [(0.0, 102.0), (0.3, 125.0), (0.0, 90.0)])
def test_what_is_within_the_slack_and_what_can_be_measured_is_no_loss(slack: float, actual_s: float) -> None:
    verdict = TailVerdict(slack)
    for _ in range(20):
        verdict.judge(actual_s=actual_s, without_s=100.0)
    assert not verdict.is_off


def test_one_bad_tail_is_no_loss() -> None:
    verdict = TailVerdict(0.0)
    for actual_s in (100.0, 99.0, 112.0, 100.0, 101.0):
        verdict.judge(actual_s=actual_s, without_s=100.0)
    assert not verdict.is_off
