"""A scripted worker as a process: `python -m tests.hostile.worker`. It prints its address, and ends with stdin."""

import asyncio
import sys

from tests.fakes.worker import FakeWorker


async def _main() -> None:
    worker = FakeWorker("w0", vocab_size=300, context_length=4096)
    worker.decode = lambda tokens: "".join(map(chr, tokens))
    async with worker:
        print(worker.address, flush=True)  # noqa: T201 - read by whoever started it
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(_main())
