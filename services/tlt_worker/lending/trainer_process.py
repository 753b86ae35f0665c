"""The spot trainer's process: started by entry point, restarted when it dies or hangs, never orphaned."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Never

from tlt_common.aio import backoff
from tlt_common.processes.children import end, send
from tlt_common.processes.core_waits import CoreWaits, WaitRecord
from tlt_common.processes.parent_death import killed_with_parent
from tlt_common.schedule_clock import ScheduleClock
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

STOP_S = 10.0
"""Grace period in seconds: a trainer writes its last checkpoint on SIGTERM."""
SETTLED_S = 30.0
"""Seconds after which a start counts as successful, which resets the restart backoff."""


def command(settings: Mapping[str, str]) -> list[str]:
    """Return the command line, by entry point, since a worker does not import the trainer."""
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tlt_common.cli", "serve", "trainer", *options]


class TrainerProcess:
    """Owns one child process. It inherits cores, standard streams and environment from the worker, and dies with it."""

    def __init__(self, arguments: list[str], *, failure: Path | None = None) -> None:
        self._arguments = arguments
        self._failure = failure
        """File to which the process writes why it exits."""
        self._problem = ""
        self._process: asyncio.subprocess.Process | None = None
        self._wanted = asyncio.Event()
        self._wanted.set()

    @property
    def problem(self) -> str:
        """Why it last exited; empty if it did not or gave no reason."""
        return self._problem

    @property
    def pid(self) -> int | None:
        """Process id; None if there is no process."""
        return self._process.pid if self._process else None

    @property
    def waits(self) -> CoreWaits:
        """Time that its threads have waited for a core; empty if there is no process."""
        return CoreWaits() if self._process is None else CoreWaits.of(self._process.pid)

    def kill(self) -> None:
        """Kill the process; it is restarted."""
        if self._process is not None:
            send(self._process, signal.SIGKILL)

    async def suspend(self) -> None:
        """Stop the process, which writes a checkpoint, until `resume`. Returns once it has exited."""
        self._wanted.clear()
        if self._process is not None:
            await end(self._process, STOP_S)

    def resume(self) -> None:
        """Start a process again."""
        self._wanted.set()

    async def run(self, *, on_exit: Callable[[], None]) -> Never:
        """Keep a process alive until cancelled, then stop it. `on_exit` is called whenever it exits by itself."""
        loop = asyncio.get_running_loop()
        delays = backoff()
        while True:
            await self._wanted.wait()
            started_s = loop.time()
            code = await self._live()
            on_exit()
            if not self._wanted.is_set():
                continue
            metrics.TRAINER_RESTARTS.inc()
            self._problem = await asyncio.to_thread(self._why, code)
            log.warning("trainer_exited", code=code, lived_s=round(loop.time() - started_s, 1))
            if loop.time() - started_s > SETTLED_S:
                delays = backoff()
            await asyncio.sleep(next(delays))

    def _why(self, code: int) -> str:
        if self._failure is None or not self._failure.is_file():
            return f"the spot trainer exited with code {code}"
        why = self._failure.read_text()
        self._failure.unlink()
        return f"the spot trainer does not run: {why}"

    async def _live(self) -> int:
        process = self._process = await asyncio.create_subprocess_exec(*killed_with_parent(self._arguments))
        try:
            log.info("trainer_started", pid=process.pid)
            return await process.wait()
        finally:
            self._process = None
            await asyncio.shield(end(process, STOP_S))


class TrainerWatch:
    """
    Kills a trainer that does not respond, unless it is starved of CPU time.

    A trainer that starts is not judged until it has answered once: on a busy machine its imports take minutes.

    Args:
        answers: Whether the last call to the trainer was answered.
        kill: Kills the trainer's process, which is restarted.
        waits: Returns the time that its threads have waited for a core.
        limit_s: Seconds without an answer, counted while this process ran on schedule; None never kills it.
    """

    def __init__(
        self,
        *,
        answers: Callable[[], bool],
        kill: Callable[[], None],
        waits: Callable[[], CoreWaits],
        limit_s: float | None,
    ) -> None:
        self._answers = answers
        self._kill = kill
        self._waits = waits
        self._limit_s = limit_s
        self._answered_at_s: float | None = None
        self._silent: WaitRecord | None = None
        """How long its threads have waited for a core since it fell silent."""

    def restarted(self) -> None:
        """Wait for the first answer of a new process."""
        self._answered_at_s, self._silent = None, None

    async def run(self) -> Never:
        """Run until cancelled."""
        async with aclosing(ScheduleClock().ticks()) as ticks:
            async for now_s in ticks:
                if self._answers():
                    self._answered_at_s, self._silent = now_s, None
                elif self._answered_at_s is not None and self._limit_s is not None:
                    self._judge(now_s, now_s - self._answered_at_s, self._limit_s)
        raise AssertionError("a clock does not end")

    def _judge(self, now_s: float, silent_s: float, limit_s: float) -> None:
        if self._silent is None:
            self._silent = WaitRecord(self._waits(), now_s)
        else:
            self._silent.look(self._waits(), now_s)
        if silent_s < limit_s:
            return
        if self._silent.is_starved:
            log.warning("trainer_starved", silent_s=silent_s)
            self._answered_at_s, self._silent = now_s, None  # another limit before it is judged again
            return
        log.error("trainer_hangs", silent_s=silent_s)
        self.restarted()
        self._kill()
