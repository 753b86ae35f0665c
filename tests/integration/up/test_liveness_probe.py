"""Real services that are stopped, or whose event loop is blocked."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import pytest

from tlt_common.rpc.addresses import PID
from tlt_local.supervision.home import Home, guarded
from tlt_local.supervision.liveness_probe import LivenessProber
from tlt_local.supervision.processes import Supervised, serve

LIVENESS_S = 2.0
BLOCKED = """
import sys, time
from tlt_common.config.base import ServiceConfig
from tlt_common.rpc.app import run_app
from tlt_common.rpc.server import serving
config = ServiceConfig.model_validate_json(sys.argv[1])
async def live():
    async with serving("127.0.0.1:0"):
        time.sleep(600)
run_app(config, live)
"""


@asynccontextmanager
async def supervised(name: str, command: Callable[[Home], Sequence[str]]) -> AsyncIterator[Home]:
    """Run a service under the prober, and yield once it serves."""

    def spelled(_: Mapping[str, str]) -> Sequence[str]:
        return command(home)

    async with guarded(None) as home, asyncio.TaskGroup() as owners:
        service = Supervised(name, spelled, home)
        prober = owners.create_task(LivenessProber(home, liveness_s=LIVENESS_S, tls=False).run())
        owners.create_task(service.run())
        try:
            await service.addresses()
            yield home
        finally:
            prober.cancel()
            await service.stop()


def pid_of(home: Home, name: str) -> int:
    try:
        return int(json.loads(home.addresses(name).read_text())[PID])
    except OSError:
        return 0


async def restarted(home: Home, name: str, former: int) -> int:
    async with asyncio.timeout(200):
        while pid_of(home, name) in {0, former}:  # noqa: ASYNC110 - waits for other processes
            await asyncio.sleep(0.05)
    return pid_of(home, name)


@pytest.mark.parametrize("name", ["coordinator", "tuner", "cache", "gateway"])
async def test_a_stopped_service_is_killed_and_started_again(name: str) -> None:
    def command(home: Home) -> Sequence[str]:
        settings = {"port_file": home.addresses(name), "metrics_port": 0, "liveness_s": LIVENESS_S}
        return serve(name, {key: str(value) for key, value in settings.items()})

    async with supervised(name, command) as home:
        former = pid_of(home, name)
        await asyncio.sleep(2 * LIVENESS_S)
        assert pid_of(home, name) == former  # one that works is left alone
        os.kill(former, signal.SIGSTOP)
        await restarted(home, name, former)
        with pytest.raises(ProcessLookupError):
            os.kill(former, 0)


async def test_a_service_whose_event_loop_is_blocked_is_killed_and_started_again() -> None:
    def command(home: Home) -> Sequence[str]:
        config = {"port_file": str(home.addresses("b")), "metrics_port": 0, "liveness_s": LIVENESS_S}
        return [sys.executable, "-c", BLOCKED, json.dumps(config)]

    async with supervised("b", command) as home:
        await restarted(home, "b", pid_of(home, "b"))
