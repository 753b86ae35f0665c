"""The spot trainer's process: started by entry-point name, restarted when it dies, never left behind."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Never

from tlt_common.aio import backoff
from tlt_common.processes import end, send
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_worker.tether import tethered

log = get_logger(__name__)

STOP_S = 10.0
"""A trainer told to end writes its last checkpoint first."""
SETTLED_S = 30.0
"""A process that lived so long did not fail at start: the next restart comes at once again."""


def command(settings: Mapping[str, str]) -> list[str]:
    """Name the program, by entry point: a worker imports no trainer."""
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tlt_common.cli", "serve", "trainer", *options]


class TrainerProcess:
    """Owns one child. It inherits cores, standard streams and environment from the worker, and dies with it."""

    def __init__(self, arguments: list[str]) -> None:
        self._arguments = arguments
        self._process: asyncio.subprocess.Process | None = None

    def kill(self) -> None:
        """End the process now; it is started again."""
        if self._process is not None:
            send(self._process, signal.SIGKILL)

    async def run(self, *, on_exit: Callable[[], None]) -> Never:
        """Keep a process alive until cancelled, then end it. `on_exit` is called whenever it died by itself."""
        loop = asyncio.get_running_loop()
        delays = backoff()
        while True:
            started_s = loop.time()
            code = await self._live()
            on_exit()
            metrics.TRAINER_RESTARTS.inc()
            log.warning("trainer_exited", code=code, lived_s=round(loop.time() - started_s, 1))
            if loop.time() - started_s > SETTLED_S:
                delays = backoff()
            await asyncio.sleep(next(delays))

    async def _live(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(*tethered(self._arguments))
        try:
            log.info("trainer_started", pid=process.pid)
            return await process.wait()
        finally:
            self._process = None
            await asyncio.shield(end(process, STOP_S))
