"""The cache as a process: its Redis ends with it, however it ends."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fakes.machine import lives

WAIT_S = 30.0
LOOK_S = 0.05


@asynccontextmanager
async def process(tmp_path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A running `tlt serve cache` and the process id of its Redis."""
    ports = tmp_path / "ports.json"
    settings = {"port_file": ports, "run_dir": tmp_path / "run", "redis": "embedded"}
    arguments = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    serving = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tlt_common.cli", "serve", "cache", *arguments),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(WAIT_S):
            while not ports.exists() or "grpc" not in json.loads(ports.read_text() or "{}"):
                assert serving.returncode is None
                await asyncio.sleep(LOOK_S)
        yield serving, child_of(serving.pid)
    finally:
        if serving.returncode is None:
            serving.kill()
            await serving.wait()


def child_of(pid: int) -> int:
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert "redis-server" in Path(f"/proc/{child}/cmdline").read_text()
    return int(child)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_redis_ends_with_the_service(sign: signal.Signals, tmp_path: Path) -> None:
    async with process(tmp_path) as (serving, redis), asyncio.timeout(WAIT_S):
        os.kill(serving.pid, sign)
        await serving.wait()
        while lives(redis):  # noqa: ASYNC110 - the process is no longer a child of anyone here
            await asyncio.sleep(LOOK_S)
    if sign is not signal.SIGKILL:
        assert list((tmp_path / "run").iterdir()) == []
