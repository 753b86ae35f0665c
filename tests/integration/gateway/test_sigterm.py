"""A gateway process that receives SIGTERM."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.fakes.worker import FakeWorker
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import TltError

FOUR = SamplingParams(max_new_tokens=4)
START_S = 60.0


@asynccontextmanager
async def process(worker: FakeWorker, port_file: Path, drain_s: float) -> AsyncIterator[asyncio.subprocess.Process]:
    settings = {"workers": f'["{worker.address}"]', "port_file": port_file, "drain_s": drain_s}
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    program = [sys.executable, "-m", "tlt_common.cli", "serve", "gateway", *options]
    running = await asyncio.create_subprocess_exec(*program)
    try:
        async with asyncio.timeout(START_S):
            while not port_file.exists():  # noqa: ASYNC110, ASYNC240 - written by another process
                await asyncio.sleep(0.02)
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_a_process_finishes_its_responses_before_it_ends(worker: FakeWorker, tmp_path: Path) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with process(worker, tmp_path / "ports.json", 60) as running:
        address = json.loads((tmp_path / "ports.json").read_text())["grpc"]
        async with Client(address) as client:
            await client.wait_ready(START_S)
            stream = client.stream([5], FOUR)
            chunks = [await anext(stream)]
            running.send_signal(signal.SIGTERM)
            async with asyncio.timeout(START_S):
                while await takes_calls(address):
                    pass
            worker.gate.set()
            chunks += [chunk async for chunk in stream]
        assert [token for chunk in chunks for token in chunk.token_ids] == [6, 7, 8, 9]
        async with asyncio.timeout(START_S):
            assert await running.wait() == 0


async def takes_calls(address: str) -> bool:
    async with Client(address) as late:
        try:
            await late.info()
        except TltError:
            return False
    return True
