"""The cache service in a process of its own, on a core of its own."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

MIB = 2**20
BUDGET_BYTES = 2048 * MIB
START_S = 30.0
LOOK_S = 0.05


@asynccontextmanager
async def cache_process(redis_url: str, directory: Path, *, core: int) -> AsyncIterator[int]:
    """
    Run `tlt serve cache` on one core; yield its port.

    Raises:
        RuntimeError: It exited at start.
    """
    ports = directory / "ports.json"
    settings = {"listen": "127.0.0.1:0", "port_file": ports, "redis": redis_url, "budget_bytes": BUDGET_BYTES}
    arguments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tlt_common.cli", "serve", "cache", *arguments), stderr=asyncio.subprocess.DEVNULL
    )
    os.sched_setaffinity(process.pid, {core})  # before it has threads, which inherit it
    try:
        async with asyncio.timeout(START_S):
            while not ports.exists() or "grpc" not in json.loads(ports.read_text() or "{}"):
                if process.returncode is not None:
                    raise RuntimeError(f"the cache exited with code {process.returncode}")
                await asyncio.sleep(LOOK_S)
        yield int(json.loads(ports.read_text())["grpc"].rpartition(":")[2])
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
