"""
Workers in a separate process: `python -m tlt_bench.control.streams ADDRESS KIND COUNT`, until killed.

Prints the round trips of its probes since the last time, as JSON, for every line it reads.
"""

import asyncio
import gc
import json
import sys
from typing import Never

import grpc

from tlt_bench.control.fleet import GATEWAYS, STREAMS_PER_CONNECTION
from tlt_bench.control.workers import Probe, SimulatedWorker
from tlt_common.rpc.follow import follow
from tlt_common.telemetry.log import configure
from tlt_common.wire import coordinator as wire

JOINING = 512
"""Workers that wait for their first lease at a time: a coordinator under test is not alone on its machine."""
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)
CROWD, PROBES = "crowd", "probes"
KINDS = {CROWD: SimulatedWorker, PROBES: Probe}


async def run_gateway(address: str, number: int) -> None:
    """Watch the fleet and report an empty queue."""
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        stub = wire.Stub(channel)
        await stub.ReportQueue(wire.pb.ReportQueueRequest(gateway_id=f"gateway-{number}"), wait_for_ready=True)
        request = wire.pb.WatchFleetRequest(accepts_changes=True)
        await follow("coordinator", lambda: stub.WatchFleet(request), lambda _: None)


async def main(address: str, kind: str, count: int) -> Never:
    """Run until killed."""
    connections = -(-count // STREAMS_PER_CONNECTION)
    stubs = [wire.Stub(grpc.aio.insecure_channel(address, options=OWN_CONNECTION)) for _ in range(connections)]
    workers = [KINDS[kind](stubs[number % connections], f"{kind}-{number}") for number in range(count)]
    async with asyncio.TaskGroup() as parts:
        parts.create_task(_print_round_trips(workers))
        if kind == CROWD:
            for number in range(GATEWAYS):
                parts.create_task(run_gateway(address, number))
        joining = asyncio.Semaphore(JOINING)
        for worker in workers:
            await joining.acquire()
            parts.create_task(worker.run(joining.release))
    raise AssertionError("workers never end")


async def _print_round_trips(workers: list[SimulatedWorker]) -> None:
    probes = [worker for worker in workers if isinstance(worker, Probe)]
    while await asyncio.to_thread(sys.stdin.readline):
        times = [ms for probe in probes for ms in probe.roundtrips_ms]
        for probe in probes:
            probe.roundtrips_ms.clear()
        sys.stdout.write(json.dumps(times) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    configure("error")
    gc.disable()  # full collections of so many streams would delay reports by seconds
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
