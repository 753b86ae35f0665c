"""The shapes of simulated fleets, and what the figures of several say."""

import asyncio

import pytest

from tlt_bench.control.command import result_of
from tlt_bench.control.fleet import MAX_STREAMS, SIZES, Measured, shape_of
from tlt_bench.control.workers import Probe, run_crowd
from tlt_common.domain.fleet import WorkerState
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.state import State, StateStore


def test_every_worker_is_of_one_kind() -> None:
    for size in SIZES:
        shape = shape_of(size)
        assert shape.streams + shape.direct == shape.workers == size
        assert shape.streams <= MAX_STREAMS
        assert 0 < shape.probes <= shape.direct


def test_figures_are_compared_with_the_smallest_fleet() -> None:
    small = Measured(decisions_ms=tuple(map(float, range(1, 101))), cpu_share=0.1, rss_mib=50.0, connected=128)
    large = Measured(decisions_ms=(200.0,), cpu_share=0.4, rss_mib=150.0, connected=1024)
    figures = result_of({128: small, 1024: large}).figures
    assert (figures["decision_ms_p99_128"], figures["decision_ms_p99_1024"]) == (100.0, 200.0)
    assert figures["decision_vs_smallest_1024"] == 2.0
    assert figures["cpu_vs_smallest_1024"] == pytest.approx(4.0)
    assert figures["rss_vs_smallest_1024"] == 3.0


@pytest.mark.looptime
async def test_simulated_workers_take_leases_and_every_device_taken_back_is_a_decision() -> None:
    coordinator = Coordinator(CoordinatorConfig(), StateStore(State(), None), Clock())
    async with asyncio.TaskGroup() as parts:
        probe = Probe(coordinator, 0)
        tasks = [
            parts.create_task(coordinator.run()),
            parts.create_task(probe.run()),
            parts.create_task(run_crowd(coordinator, 20)),
        ]
        await asyncio.sleep(20)
        assert len(probe.decisions_ms) > 3
        states = [account.status.state for account in coordinator.fleet().workers]
        assert len(states) == 21
        assert states.count(WorkerState.TRAINING) >= 20
        for task in tasks:
            task.cancel()
