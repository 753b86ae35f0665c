"""The calculated fleet keeps its books, and the rules are compared on the same responses."""

from itertools import islice
from statistics import fmean

import pytest

from tlt_bench.consolidate.devices import H100_7B, VirtualRequest, VirtualWorker
from tlt_bench.consolidate.fixed import to_empty
from tlt_bench.consolidate.steps import ByCurve, Fixed, Rule, Stay, play
from tlt_bench.forecast.lengths import ALIKE
from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.forecast import CostCurve, Forecaster, Left, Running
from tlt_gateway.workers.routing import Candidate
from tlt_simulator.traces.drawn import Drawn


def test_a_worker_generates_as_fast_as_its_device() -> None:
    worker = VirtualWorker("w", H100_7B)
    worker.receive(VirtualRequest(0, Drawn(prompt=0, length=1000, ends=True)))
    prefill_s = 500 * H100_7B.prefill_token_s
    assert worker.next_end_s == pytest.approx(prefill_s + 1000 * H100_7B.token_s(1, 500), rel=1e-6)
    ended = worker.advance(worker.next_end_s)
    assert [one.ref for one in ended] == [0]
    rounds = worker.rounds()
    assert rounds.prefilled_tokens == 500
    assert rounds.arms[0].rounds == 1000
    assert worker.rounds().arms == ()


def test_a_curve_learned_from_its_rounds_is_its_own() -> None:
    worker, curve = VirtualWorker("w", H100_7B), CostCurve()
    for ref in range(12):
        worker.receive(VirtualRequest(ref, Drawn(prompt=0, length=2000 * (ref + 1), ends=True)))
    while worker.requests:
        worker.advance(min(worker.next_end_s, 1.0))
        curve.learn(worker.rounds())
    pace = curve.pace(4)
    assert pace is not None
    for requests, kv_tokens in ((1, 20_000), (2, 40_000), (4, 70_000)):
        assert pace.token_s(requests, kv_tokens) == pytest.approx(H100_7B.token_s(requests, kv_tokens), rel=0.02)


def played(rule: Rule, *, steps: int = 4) -> list[tuple[float, float, int]]:
    """Return seconds, idle seconds and moves of steps of 128 responses on 4 workers, after the first."""
    drawn = ALIKE.drawn(prompts=32, group=4, of=64, steps=steps, seed=2)
    found = [play(responses, rule, H100_7B, workers=4, cap=ALIKE.cap) for responses in drawn]
    return [(one.seconds, one.idle_s, one.moved) for one in islice(found, 1, None)]


class TenTimesOff(Forecaster):
    """Forecasts that are ten times too long for some prompts, and a tenth for others."""

    def left(self, running: list[Running]) -> list[Left]:  # type: ignore[override] # a list is all that is passed
        factors = [10.0 if hash(one.prompt) % 2 else 0.1 for one in running]
        return [
            Left(tuple(min(factor * tokens, one.cap - one.generated) for tokens in left.tokens))
            for one, left, factor in zip(running, super().left(running), factors, strict=True)
        ]


def test_moves_by_the_curve_free_devices_and_delay_no_step() -> None:
    stay, fixed, curve = played(Stay()), played(Fixed()), played(ByCurve())
    ratios = [one[0] / other[0] for one, other in zip(curve, stay, strict=True)]
    fixed_ratios = [one[0] / other[0] for one, other in zip(fixed, stay, strict=True)]
    assert fmean(ratios) < 1.01
    assert fmean(ratios) < fmean(fixed_ratios)
    assert sum(one[2] for one in curve) > 0
    assert sum(one[2] for one in stay) == 0


def test_estimates_that_are_off_by_ten_cost_little() -> None:
    stay, wrong = played(Stay()), played(ByCurve(forecaster=TenTimesOff()))
    assert max(one[0] / other[0] for one, other in zip(wrong, stay, strict=True)) < 1.06


def lent(name: str, running: int, **changes: int | bool) -> Candidate:
    return Candidate(
        worker_id=WorkerId(name),
        policy_version=PolicyVersion(0),
        max_running=8,
        slots=8,
        assigned=running,
        lendable=bool(changes.get("lendable", True)),
        foreign=int(changes.get("foreign", 0)),
    )


def test_the_fixed_rule_moves_the_fewest_requests() -> None:
    assert to_empty([lent("a", 1), lent("b", 3)], at_most=4) == ("a",)
    assert to_empty([lent("a", 2), lent("b", 3)], at_most=4) == ()
    assert to_empty([lent("a", 1), lent("b", 1), lent("c", 2)], at_most=4) == ("a", "b")
    assert to_empty([lent("a", 1, lendable=False), lent("b", 2)], at_most=4) == ("b",)
    assert to_empty([lent("a", 1), lent("b", 2, foreign=1)], at_most=3) == ()
