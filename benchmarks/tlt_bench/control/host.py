"""One coordinator with its fleet: `python -m tlt_bench.control.host WORKERS` prints the figures as JSON."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tlt_bench.control.fleet import MEASURED_S, WARM_S, WAVES, FleetShape, MeasuredFleet, Spread, shape_of, spread_of
from tlt_bench.control.streams import CROWD, PROBES
from tlt_bench.control.timed_servicer import TimedServicer
from tlt_common.aio import Signal
from tlt_common.processes.parent_death import killed_with_parent
from tlt_common.rpc.server import Service, serving
from tlt_common.telemetry.log import configure
from tlt_common.wire import coordinator as wire
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.main import lend
from tlt_coordinator.state import StateStore

JOIN_S = 120.0
WAVE_S = 60.0
CALM_S = 1.5
"""Seconds between two waves."""
LAG_EVERY_S = 0.01


async def measure(shape: FleetShape) -> MeasuredFleet:
    """Run a fleet and measure it after it has settled."""
    clock = Clock()
    coordinator = Coordinator(CoordinatorConfig(), StateStore.open(None, now_s=clock.now()), clock)
    async with asyncio.TaskGroup() as parts:
        running = parts.create_task(lend(coordinator))
        servicer = TimedServicer(coordinator, parts)
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
        async with serving("127.0.0.1:0", service) as server:
            async with (
                _streams(server.port, CROWD, shape.crowd),
                _streams(server.port, PROBES, shape.probes) as probes,
            ):
                await _joined(servicer, shape)
                await asyncio.sleep(WARM_S)
                await _round_trips(probes)
                servicer.decisions_ms.clear()
                began_s, began_cpu_s, began_reports = time.perf_counter(), time.process_time(), servicer.reports
                began_waited_s = _waited_s()
                lags_ms = await _lags_ms(MEASURED_S)
                took_s = time.perf_counter() - began_s
                cpu_share = (time.process_time() - began_cpu_s) / took_s
                waiting_share = (_waited_s() - began_waited_s) / took_s
                reports_per_s = (servicer.reports - began_reports) / took_s
                decision_ms, roundtrip_ms = spread_of(servicer.decisions_ms), spread_of(await _round_trips(probes))
                waves = await _waves(coordinator, servicer, shape)
                figures = MeasuredFleet(
                    decision_ms=decision_ms,
                    roundtrip_ms=roundtrip_ms,
                    loop_lag_ms=spread_of(lags_ms),
                    **waves,
                    reports_per_s=reports_per_s,
                    cpu_share=cpu_share,
                    waiting_share=waiting_share,
                    rss_mib=_rss_mib(),
                    connected=servicer.connected,
                    load=os.getloadavg()[0],
                )
            await servicer.until(lambda: servicer.connected == 0)
        running.cancel()
    return figures


@asynccontextmanager
async def _streams(port: int, kind: str, count: int) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *killed_with_parent([sys.executable, "-m", "tlt_bench.control.streams", f"127.0.0.1:{port}", kind, str(count)]),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _round_trips(probes: asyncio.subprocess.Process) -> list[float]:
    """Request the timings of the probes' process."""
    assert probes.stdin is not None  # noqa: S101 - both are pipes
    assert probes.stdout is not None  # noqa: S101
    probes.stdin.write(b"\n")
    times: list[float] = json.loads(await probes.stdout.readline())
    return times


async def _joined(servicer: TimedServicer, shape: FleetShape) -> None:
    async with asyncio.timeout(JOIN_S):
        await servicer.until(lambda: servicer.connected >= shape.workers and servicer.lent >= shape.crowd)


async def _lags_ms(seconds: float) -> list[float]:
    """Return the delay of each of the event loop's ticks."""
    lags_ms, end_s = [], time.perf_counter() + seconds
    while (due_s := time.perf_counter() + LAG_EVERY_S) < end_s:
        await asyncio.sleep(LAG_EVERY_S)
        lags_ms.append(max(0.0, time.perf_counter() - due_s) * 1e3)
    return lags_ms


async def _waves(coordinator: Coordinator, servicer: TimedServicer, shape: FleetShape) -> dict[str, Spread]:
    """Repeatedly recall all leases by queueing as many requests, then lend all workers again."""
    times: dict[str, list[float]] = {}

    async def wave(name: str, queued: int, first: Signal, lent: Callable[[], bool]) -> None:
        seen, began_s = first.count, time.perf_counter()
        coordinator.report_queue("wave", queued)
        await first.beyond(seen)
        times.setdefault(f"{name}_first_ms", []).append((time.perf_counter() - began_s) * 1e3)
        async with asyncio.timeout(WAVE_S):
            await servicer.until(lent)
        times.setdefault(f"{name}_all_ms", []).append((time.perf_counter() - began_s) * 1e3)
        await asyncio.sleep(CALM_S)

    for _ in range(WAVES):
        await wave("recall", shape.workers, servicer.recalled, lambda: servicer.lent == 0)
        await wave("lend", 0, servicer.changed, lambda: servicer.lent >= shape.crowd)
    return {name: spread_of(all_ms) for name, all_ms in times.items()}


def _waited_s() -> float:
    """Return how long this process's main thread has been runnable without running (Linux)."""
    return int(Path("/proc/self/schedstat").read_text().split()[1]) / 1e9


def _rss_mib() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    configure("info")  # what a coordinator logs belongs to its cost
    figures = asyncio.run(measure(shape_of(int(sys.argv[1]))))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
