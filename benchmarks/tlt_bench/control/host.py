"""One coordinator and its fleet: `python -m tlt_bench.control.host WORKERS`; prints the figures as JSON."""

import asyncio
import json
import sys
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tlt_bench.control.fleet import MEASURED_S, WARM_S, FleetShape, Measured, shape_of
from tlt_bench.control.workers import probes, run_crowd
from tlt_common.domain.fleet import WorkerState
from tlt_common.parent_death import killed_with_parent
from tlt_common.rpc.server import Service, serving
from tlt_common.telemetry.log import configure
from tlt_common.wire import coordinator as wire
from tlt_coordinator.clock import Clock
from tlt_coordinator.config import CoordinatorConfig
from tlt_coordinator.coordinator import Coordinator
from tlt_coordinator.main import StandaloneCoordinator
from tlt_coordinator.servicer import CoordinatorServicer

JOIN_S = 600.0


async def measure(shape: FleetShape) -> Measured:
    """Run a fleet, and measure after it settled."""
    host = StandaloneCoordinator(CoordinatorConfig(), Clock())
    async with asyncio.TaskGroup() as parts:
        tasks = [parts.create_task(host.run())]
        await asyncio.sleep(0)
        coordinator = host.active.coordinator
        servicer = CoordinatorServicer(host.active, parts)
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, servicer))
        async with serving("127.0.0.1:0", service) as server:
            address = f"127.0.0.1:{server.port}"
            streams = await asyncio.create_subprocess_exec(
                *killed_with_parent([sys.executable, "-m", "tlt_bench.control.streams", address, str(shape.streams)])
            )
            try:
                timed = list(probes(coordinator, shape.probes))
                tasks += [parts.create_task(probe.run()) for probe in timed]
                tasks.append(parts.create_task(run_crowd(coordinator, shape.direct - shape.probes)))
                await _joined(coordinator, shape.workers)
                await asyncio.sleep(WARM_S)
                for probe in timed:
                    probe.decisions_ms.clear()
                began_s, began_cpu_s = time.perf_counter(), time.process_time()
                await asyncio.sleep(MEASURED_S)
                cpu_share = (time.process_time() - began_cpu_s) / (time.perf_counter() - began_s)
                return Measured(
                    decisions_ms=tuple(sorted(ms for probe in timed for ms in probe.decisions_ms)),
                    cpu_share=cpu_share,
                    rss_mib=_rss_mib(),
                    connected=_connected(coordinator),
                )
            finally:
                if streams.returncode is None:
                    streams.kill()
                await streams.wait()
                for task in tasks:
                    task.cancel()


async def _joined(coordinator: Coordinator, workers: int) -> None:
    async with asyncio.timeout(JOIN_S):
        while _connected(coordinator) < workers:  # noqa: ASYNC110 - a benchmark of the real coordinator has no hook
            await asyncio.sleep(1.0)


def _connected(coordinator: Coordinator) -> int:
    return sum(account.status.state is not WorkerState.DOWN for account in coordinator.fleet(max_changes=0).workers)


def _rss_mib() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    configure("info")  # what a coordinator logs belongs to its cost
    figures = asyncio.run(measure(shape_of(int(sys.argv[1]))))
    sys.stdout.write(json.dumps(asdict(figures)) + "\n")
