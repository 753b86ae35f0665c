"""Workers that leave the list and return to it while their connection is being closed."""

import asyncio
from typing import Any, Self, cast

import grpc

from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

NOWHERE = "127.0.0.1:1"


class SlowlyClosed:
    """A channel to nowhere that takes its time to close."""

    def __init__(self) -> None:
        self._channel = grpc.aio.insecure_channel(NOWHERE)
        self.closing, self.closed = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closing.set()
        await self.closed.wait()
        await self._channel.close()


async def admit(_worker: PooledWorker) -> None:
    raise AssertionError("nowhere reports nothing")


async def test_a_worker_that_is_listed_again_while_its_connection_closes_is_a_new_one() -> None:
    made: list[SlowlyClosed] = []

    def connect(_address: str) -> grpc.aio.Channel:
        made.append(SlowlyClosed())
        return cast("grpc.aio.Channel", made[-1])

    pool = WorkerPool(connect, gateway_id="g", probe_s=0.01, silence_s=None, stage_s=1.0)
    running = asyncio.ensure_future(pool.run(admit))
    try:
        pool.see([NOWHERE])
        pool.see([])
        async with asyncio.timeout(20):
            await made[0].closing.wait()
            assert not pool.workers
            pool.see([NOWHERE])
            again = pool.workers[0]
            made[0].closed.set()
            pool.see([NOWHERE, "127.0.0.1:2"])  # an unrelated change
            assert pool.workers[0] is again
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(10)))
            assert again in pool.workers
            assert len(made) == 3
    finally:
        for channel in made:
            channel.closed.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
