"""Workers with a connection each, and gateways: `python -m tlt_bench.control.streams ADDRESS WORKERS`, until killed."""

import asyncio
import sys
from collections.abc import AsyncIterator

import grpc

from tlt_bench.control.fleet import ASK_EVERY_S, GATEWAYS, REPORT_EVERY_S
from tlt_bench.control.workers import IDLE, hello, obeyed
from tlt_common.rpc.follow import follow
from tlt_common.telemetry.log import configure
from tlt_common.wire import coordinator as wire

JOINS_PER_S = 100
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1),)


async def run_worker(address: str, number: int) -> None:
    """Report every second, take leases, and ask for the newest drafter; reconnect as a worker does."""
    status = IDLE
    await asyncio.sleep(number / JOINS_PER_S)

    async def reports() -> AsyncIterator[wire.pb.HoldLeaseRequest]:
        yield wire.report_to_pb(hello(f"stream-{number}"))
        while True:
            yield wire.report_to_pb(status)
            await asyncio.sleep(REPORT_EVERY_S)

    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        stub = wire.Stub(channel)

        def obey(message: wire.pb.HoldLeaseResponse) -> None:
            nonlocal status
            status = obeyed(status, wire.order_from_pb(message))

        async def newest() -> AsyncIterator[wire.pb.GetDrafterResponse]:
            while True:
                await asyncio.sleep(ASK_EVERY_S)
                yield await stub.GetDrafter(wire.pb.GetDrafterRequest())

        async with asyncio.TaskGroup() as parts:
            parts.create_task(follow("coordinator", newest, lambda _: None))
            parts.create_task(follow("coordinator", lambda: stub.HoldLease(reports()), obey))


async def run_gateway(address: str, number: int) -> None:
    """Watch the fleet and report an empty queue."""
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        stub = wire.Stub(channel)
        await stub.ReportQueue(wire.pb.ReportQueueRequest(gateway_id=f"gateway-{number}"), wait_for_ready=True)
        request = wire.pb.WatchFleetRequest(accepts_changes=True)
        await follow("coordinator", lambda: stub.WatchFleet(request), lambda _: None)


async def main(address: str, workers: int) -> None:
    """Run until the coordinator ends."""
    async with asyncio.TaskGroup() as parts:
        for number in range(workers):
            parts.create_task(run_worker(address, number))
        for number in range(GATEWAYS):
            parts.create_task(run_gateway(address, number))


if __name__ == "__main__":
    configure("error")
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
