"""Two workers with real engines, one of which is stopped in the middle of everything."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import psutil
import pytest

from tests.engine.models import write_target
from tests.integration.gateway.conftest import served
from tlt_common.client import Client, SamplingParams
from tlt_gateway.config import GatewayConfig

pytestmark = pytest.mark.engine

START_S = 600.0
LONG = SamplingParams(max_new_tokens=700, ignore_eos=True, seed=5)


@asynccontextmanager
async def worker(model: Path, name: str, work: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a worker with an engine; yield its process and address once it serves."""
    settings = {
        "model": model,
        "worker_id": name,
        "run_dir": work / name,
        "port_file": work / f"{name}.json",
        "engine.dtype": "float32",
        "engine.stall_s": 5,
        "engine.arms": "off,ngram-3",
    }
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with (work / f"{name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tlt_common.cli", "serve", "worker", *options), stdout=log, stderr=log
        )
    try:
        async with asyncio.timeout(START_S):
            while not (work / f"{name}.json").exists():
                assert process.returncode is None, (work / f"{name}.log").read_text()
                await asyncio.sleep(0.1)
        yield process, json.loads((work / f"{name}.json").read_text())["grpc"]
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


def scheduler_of(pid: int) -> int:
    """Return the process id of the engine of a worker process."""
    (found,) = [
        child.pid for child in psutil.Process(pid).children(recursive=True) if "scheduler" in " ".join(child.cmdline())
    ]
    return found


async def answers(client: Client) -> list[tuple[int, ...]]:
    (responses,) = await client.batch([[3, 7, 5]], 8, LONG)
    return [response.token_ids for response in responses]


@pytest.mark.timeout(1800)
async def test_a_stopped_engine_is_killed_and_neither_answers_nor_an_update_wait_for_it(tmp_path: Path) -> None:
    model = write_target(tmp_path / "target")
    async with AsyncExitStack() as parts:
        starting = [parts.enter_async_context(worker(model, name, tmp_path)) for name in ("w0", "w1")]
        (stalls, first), (_, second) = await asyncio.gather(*starting)
        client = await parts.enter_async_context(served(GatewayConfig(workers=(first, second)), workers=2))
        undisturbed = await answers(client)
        asked = asyncio.create_task(answers(client))
        async with asyncio.timeout(60):
            while (await client.info()).running < len(undisturbed):
                pass
        os.kill(scheduler_of(stalls.pid), signal.SIGSTOP)
        published = await client.publish_weights(1, str(model))
        assert await asked == undisturbed
        assert published.workers == 1
        assert await stalls.wait() != 0
        log = (tmp_path / "w0.log").read_text()
        (stalled,) = [line for line in log.splitlines() if "engine_stalled" in line]
        assert "has been stopped for 5 s" in stalled
        assert "the engine died: it hung and was killed" in " ".join(log.split())  # the last line is wrapped
        assert await answers(client) == undisturbed
