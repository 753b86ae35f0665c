"""Judges real processes."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psutil
import pytest

from tlt_worker.engine.stall import StallJudge
from tlt_worker.engine.stall_watch import StallWatch, process_sample

SPIN = "print(flush=True)\nwhile True: pass"
SLEEP = "import time\nprint(flush=True)\ntime.sleep(600)"


@asynccontextmanager
async def process(program: str) -> AsyncIterator[int]:
    started = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert started.stdout is not None
    await started.stdout.readline()
    try:
        yield started.pid
    finally:
        started.kill()
        await started.wait()


def watch(pid: int, *, device: str = "cpu", requests: int = 1) -> StallWatch:
    return StallWatch(
        StallJudge(1.0, device),
        pids=lambda: [pid],
        rounds=lambda: 1000,
        requests=lambda: requests,
        loading=lambda: False,
    )


async def test_linux_says_what_a_process_does() -> None:
    async with process(SPIN) as pid:
        before = process_sample(pid)
        while process_sample(pid).cpu_s < before.cpu_s + 0.1:
            pass
        assert not before.stopped
        os.kill(pid, signal.SIGSTOP)
        while not process_sample(pid).stopped:
            pass
        os.kill(pid, signal.SIGCONT)
        while process_sample(pid).stopped:
            pass


async def test_a_stopped_process_is_found_even_without_requests() -> None:
    async with process(SPIN) as pid:
        os.kill(pid, signal.SIGSTOP)
        async with asyncio.timeout(60):
            assert f"its process {pid} has been stopped" in await watch(pid, requests=0).hung()


async def test_a_process_that_sleeps_while_requests_run_is_found() -> None:
    async with process(SLEEP) as pid, asyncio.timeout(60):
        assert "no round has ended" in await watch(pid).hung()


async def test_a_process_that_computes_is_left_alone_on_a_cpu() -> None:
    async with process(SPIN) as pid:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4):
                await watch(pid).hung()


async def test_a_process_that_compiles_is_left_alone_on_a_gpu() -> None:
    compiling = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {SPIN!r}])\n{SLEEP}"
    async with process(compiling) as pid:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(4):
                await watch(pid, device="cuda").hung()
        for child in psutil.Process(pid).children():
            child.kill()
