"""A gateway and its fakes in a separate thread, for blocking clients."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass

from tests.fakes.worker import FakeWorker
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A gateway and its fakes, running in the thread."""

    address: str
    workers: tuple[FakeWorker, ...]
    loop: asyncio.AbstractEventLoop

    def gate(self, *, open_: bool) -> None:
        """Let the fakes emit tokens, or pause them."""
        for worker in self.workers:
            self.loop.call_soon_threadsafe(worker.gate.set if open_ else worker.gate.clear)


@contextmanager
def endpoint(*, workers: int = 2, vocab_size: int = 100) -> Iterator[Endpoint]:
    ready: Future[tuple[Endpoint, asyncio.Task[None] | None]] = Future()

    async def run() -> None:
        async with AsyncExitStack() as stack:
            fakes = [
                await stack.enter_async_context(FakeWorker(f"w{i}", vocab_size=vocab_size)) for i in range(workers)
            ]
            config = GatewayConfig(workers=tuple(fake.address for fake in fakes))
            loop, task = asyncio.get_running_loop(), asyncio.current_task()

            def serving(address: str) -> None:
                ready.set_result((Endpoint(address=address, workers=tuple(fakes), loop=loop), task))

            await live(config, on_serving=serving)

    def main() -> None:
        try:
            asyncio.run(run())
        except asyncio.CancelledError:
            return

    thread = threading.Thread(target=main, name="gateway")
    thread.start()
    running, task = ready.result(timeout=20)
    try:
        yield running
    finally:
        assert task is not None
        running.loop.call_soon_threadsafe(task.cancel)
        thread.join()
