"""The shapes of simulated fleets, simulated workers, and what the figures of several sizes say."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import pytest

from tlt_bench.control.alone import decision_us
from tlt_bench.control.command import result_of
from tlt_bench.control.fleet import SIZES, MeasuredFleet, shape_of, spread_of
from tlt_bench.control.timed_servicer import TimedServicer
from tlt_bench.control.workers import IDLE, Probe, SimulatedWorker, hello
from tlt_common.domain.fleet import Lease, ReportInterval, Revocation, WorkerState
from tlt_common.domain.ids import Epoch
from tlt_common.wire import coordinator as wire
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.state import State, StateStore

LEASE = Lease(epoch=Epoch(3), ttl_s=5.0)


def stub() -> wire.AsyncStub:
    return wire.Stub(grpc.aio.insecure_channel("127.0.0.1:1"))


def figures(p99_ms: float, cpu_share: float, rss_mib: float) -> MeasuredFleet:
    times = spread_of([1.0, p99_ms])
    return MeasuredFleet(
        decision_ms=times,
        roundtrip_ms=times,
        loop_lag_ms=times,
        recall_first_ms=times,
        recall_all_ms=times,
        lend_first_ms=times,
        lend_all_ms=times,
        reports_per_s=1.0,
        cpu_share=cpu_share,
        waiting_share=0.0,
        rss_mib=rss_mib,
        connected=1,
        load=0.0,
    )


def test_every_worker_is_of_one_kind() -> None:
    for size in SIZES:
        shape = shape_of(size)
        assert shape.crowd + shape.probes == shape.workers == size
        assert 0 < shape.probes < shape.crowd


def test_a_spread_is_that_of_all_times() -> None:
    spread = spread_of([float(ms) for ms in reversed(range(200))])
    assert (spread.count, spread.median, spread.p99, spread.max) == (200, 100.0, 198.0, 199.0)
    with pytest.raises(ValueError, match="nothing was timed"):
        spread_of([])


def test_figures_are_compared_with_the_smallest_fleet() -> None:
    measured = {128: figures(2.0, 0.1, 50.0), 1024: figures(4.0, 0.4, 150.0)}
    found = result_of(measured, {128: 100.0, 1024: 110.0}).figures
    assert found["decision_us_1024"] == 110.0
    assert found["decision_us_vs_smallest_1024"] == pytest.approx(1.1)
    assert (found["decision_ms_p99_128"], found["decision_ms_p99_1024"]) == (2.0, 4.0)
    assert found["decision_vs_smallest_1024"] == 2.0
    assert found["cpu_vs_smallest_1024"] == pytest.approx(4.0)
    assert found["rss_vs_smallest_1024"] == 3.0


async def test_a_simulated_worker_takes_a_lease_up_once_and_returns_it() -> None:
    worker = SimulatedWorker(stub(), "w0")
    worker.obey(LEASE)
    worker.obey(replace(LEASE, ttl_s=9.0))
    assert (worker.status.state, worker.status.epoch) == (WorkerState.TRAINING, 3)
    worker.obey(Revocation(epoch=Epoch(2)))
    assert worker.status.epoch == 3
    worker.obey(Revocation(epoch=Epoch(3)))
    assert worker.status == IDLE


@pytest.mark.looptime
async def test_a_probe_takes_its_device_back_and_times_the_revocation() -> None:
    probe = Probe(stub(), "p0")
    probe.obey(LEASE)
    probe.obey(ReportInterval(seconds=5.0))
    assert probe.status.epoch == 3
    await asyncio.sleep(1.0)
    assert (probe.status.state, probe.status.epoch) == (WorkerState.ROLLOUT, 0)
    probe.obey(replace(LEASE, epoch=Epoch(4)))  # it crossed the report
    assert probe.status.state is WorkerState.ROLLOUT
    probe.obey(Revocation(epoch=Epoch(4)))
    assert (probe.status.state, len(probe.roundtrips_ms)) == (WorkerState.IDLE, 1)


@pytest.mark.looptime
async def test_the_clock_at_grpc_counts_leases_and_times_the_devices_taken_back() -> None:
    coordinator = Coordinator(CoordinatorConfig(), StateStore(State(), None), Clock())
    reports: asyncio.Queue[wire.pb.HoldLeaseRequest] = asyncio.Queue()

    async def said() -> AsyncIterator[wire.pb.HoldLeaseRequest]:
        while True:
            yield await reports.get()

    context: Any = None
    async with asyncio.TaskGroup() as parts:
        running = parts.create_task(coordinator.run())
        servicer = TimedServicer(coordinator, parts)
        for report in (hello("w0"), IDLE):
            reports.put_nowait(wire.report_to_pb(report))
        orders: AsyncGenerator[wire.pb.HoldLeaseResponse, None] = servicer.HoldLease(said(), context)
        grant = (await anext(orders)).grant
        assert (servicer.connected, servicer.lent, servicer.decisions_ms) == (1, 1, [])
        training = replace(IDLE, state=WorkerState.TRAINING, epoch=Epoch(grant.epoch), lent=True)
        for report in (training, replace(IDLE, state=WorkerState.ROLLOUT, running=1)):
            reports.put_nowait(wire.report_to_pb(report))
        assert (await anext(orders)).revoke.epoch == grant.epoch
        assert (servicer.lent, servicer.reports, len(servicer.decisions_ms)) == (0, 4, 1)
        await orders.aclose()
        assert servicer.connected == 0
        running.cancel()


async def test_the_cost_of_a_decision_alone_is_measured_over_a_fleet() -> None:
    assert await decision_us(20) > 0.0
