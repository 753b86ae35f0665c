"""Loads of gateways: one view of the tail for all, and how long the fleet will run."""

from dataclasses import replace

import pytest

from tests.unit.tlt_gateway.consolidation.views import request, worker
from tlt_common.domain.ids import WorkerId
from tlt_common.forecast.load import GatewayLoad, TailReport, WorkerLoad, by_cap
from tlt_coordinator.forecasts import FRESH_S, Forecasts, RunningLengths


def tail(gateway: str, *refs: int, settled: bool = True, workers: int = 2) -> GatewayLoad:
    return GatewayLoad(
        tail=TailReport(
            is_settled=settled,
            workers=tuple(worker(number) for number in range(workers)),
            requests=tuple(replace(request(ref, ref % 2, 100.0), gateway_id=gateway) for ref in refs),
        )
    )


def test_all_gateways_get_one_view_with_the_requests_of_all() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("a", GatewayLoad(), 0.0)
    assert forecasts.view(0.0) is None, "one that cannot forecast keeps all from moving"
    forecasts.report("b", tail("b", 1), 0.1)
    forecasts.report("a", tail("a", 1, 2), 0.5)
    found = forecasts.view(0.7)
    assert found is not None
    view, age_s = found
    assert [one.name for one in view.requests] == ["a/1", "a/2", "b/1"]
    assert age_s == pytest.approx(0.2)
    forecasts.report("b", tail("b", 1), 0.8)
    again = forecasts.view(0.8)
    assert again is not None
    assert again[0] == view, "the same until the next, for whoever asks"
    assert again[1] == pytest.approx(0.3)


def test_the_next_view_follows_when_all_have_reported_again_and_nothing_is_underway() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("a", tail("a", 1), 0.0)
    forecasts.report("a", tail("a", 1, settled=False), 1.2)
    found = forecasts.view(1.2)
    assert found is not None
    assert found[0].serial == 1
    forecasts.report("a", tail("a", 1), 1.7)
    found = forecasts.view(1.7)
    assert found is not None
    assert found[0].serial == 2


def test_a_view_gets_old_and_a_gateway_that_is_gone_does_not_count() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("b", GatewayLoad(), 0.0)
    forecasts.report("a", tail("a", 1), 4.0)
    assert forecasts.view(4.0) is None
    forecasts.report("a", tail("a", 1), 6.0)
    assert forecasts.view(6.0) is not None
    assert forecasts.view(6.0 + FRESH_S + 0.1) is None


def load(*generated: int, cap: int = 1024) -> GatewayLoad:
    running = by_cap((cap, tokens) for tokens in generated)
    return GatewayLoad(workers=(WorkerLoad(worker_id=WorkerId("w"), running=running, kv_tokens=0),))


def added(forecasts: Forecasts, now_s: float) -> RunningLengths:
    running = RunningLengths()
    for each in forecasts.loads(now_s):
        running.add(each)
    return running


def longest_left(forecasts: Forecasts, now_s: float) -> list[float] | None:
    if (outlook := forecasts.outlook(added(forecasts, now_s))) is None:
        return None
    return [outlook.longest_left(level) for level in (0.1, 0.9)]


def test_the_longest_of_all_is_foretold_from_lengths_and_caps() -> None:
    forecasts = Forecasts(stale_s=5.0)
    assert longest_left(forecasts, 0.0) is None
    forecasts.report("a", GatewayLoad(ended=tuple(range(1, 1000, 5)), cut=(1000,)), 0.0)
    forecasts.report("a", load(100, 100, 700), 1.0)
    forecasts.report("b", load(100), 1.0)
    running = added(forecasts, 1.0)
    assert running.counts == {(1024, 7): 3, (1024, 10): 1}
    assert (running.requests, running.workers) == (4, 2)
    found = longest_left(forecasts, 1.0)
    assert found is not None
    low, high = found
    assert 200 < low < high <= 1024
    forecasts.report("b", load(), 2.0)
    alone = longest_left(forecasts, 2.0)
    assert alone is not None
    assert alone[0] < low


def test_when_nothing_runs_nothing_is_left() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("a", GatewayLoad(ended=tuple(range(1, 1000, 5))), 0.0)
    assert not forecasts.running(0.0)
    assert longest_left(forecasts, 0.0) == [0.0, 0.0]


def test_lengths_are_counted_by_power_of_two_since_the_step_began() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("a", GatewayLoad(ended=(0, 5, 7), cut=(8,)), 0.0)
    forecasts.report("b", GatewayLoad(cut=(15,)), 0.0)
    counted = [(lengths.bits, lengths.count, lengths.cut) for lengths in forecasts.finished]
    assert counted == [(0, 1, 0), (3, 2, 0), (4, 2, 2)]
    forecasts.begin_step()
    assert forecasts.finished == []


def test_the_pace_is_what_gateways_last_told_at_as_many_requests_a_worker() -> None:
    forecasts = Forecasts(stale_s=5.0)
    forecasts.report("a", load(100, 100, 700), 0.0)
    assert forecasts.token_s(added(forecasts, 0.0)) is None
    told = tail("b", 1)
    forecasts.report("b", told, 0.0)
    assert told.tail is not None
    assert forecasts.token_s(added(forecasts, 0.0)) == told.tail.workers[0].pace.token_s(3, 0.0)
    assert forecasts.token_s(RunningLengths()) is None
