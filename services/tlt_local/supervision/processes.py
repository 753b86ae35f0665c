"""Supervises the suite's processes: start, restart, stop."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from tlt_common.aio import backoff
from tlt_common.errors import ConfigError, UnavailableError
from tlt_common.processes.children import end, send
from tlt_common.telemetry.log import get_logger
from tlt_local.supervision.home import Home

log = get_logger(__name__)

START_S = 120.0
"""Time limit from the start of a process until it serves."""
STOP_S = 15.0
"""Time limit of an orderly stop; then the process is killed. Ray takes about 5 s."""
POLL_S = 0.05
ERROR = "tlt: "
"""Beginning of the line with which a command of the suite says why it fails."""
REASON_LINES = 5
STARTS = 3
"""Attempts at a first start. Only a process that exits with os.EX_TEMPFAIL is started again."""


Command: TypeAlias = Callable[[Mapping[str, str]], Sequence[str]]


def serve(name: str, settings: Mapping[str, str]) -> list[str]:
    """Return the command line `tlt serve NAME --set key=value ...`."""
    options = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tlt_common.cli", "serve", name, *options]


def repeated(addresses: Mapping[str, str]) -> Mapping[str, str]:
    """Return the settings with which a restarted service listens on the same addresses."""
    spelled: dict[str, Callable[[str], tuple[str, str]]] = {
        "grpc": lambda address: ("listen", address),
        "metrics": lambda address: ("metrics_port", address.rpartition(":")[2]),
        "http": lambda address: ("http_listen", address),
        "rollout_http": lambda address: ("http.listen", address),
    }
    return dict(spelled[kind](address) for kind, address in addresses.items() if kind in spelled)


def reason_in(log: str) -> str:
    """Return why a process exited, from its log: the text after the mark of `tlt`'s errors, or the last line."""
    _, marked, said = f"\n{log}".rpartition(f"\n{ERROR}")
    lines = [line.strip() for line in (said if marked else log).splitlines() if line.strip()]
    if not lines:
        return "its log is empty"
    return " ".join(lines[:REASON_LINES]) if marked else lines[-1]


def why_it_ended(code: int, log: str) -> str:
    """Return why a process exited, from its exit code and log."""
    said = reason_in(log)
    if code >= 0:
        return said
    hint = ", as the kernel does when memory is exhausted" if code == -signal.SIGKILL else ""
    return f"ended by {signal.Signals(-code).name}{hint}; {f'last log line: {said}' if log else said}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A part of the suite that ended although nobody stopped it."""

    name: str
    why: str
    code: int | None = None
    """Exit code of its process, or the negative number of the signal that ended it; None if unknown."""

    @property
    def failed(self) -> bool:
        """Whether it failed by itself rather than being killed or terminated from outside."""
        return self.code is not None and self.code not in {os.EX_OK, -signal.SIGKILL, -signal.SIGTERM}

    def __str__(self) -> str:
        return f"{self.name} ended: {self.why}"


class Supervised:
    """
    One process, restarted at the same addresses when it exits. Exiting before the suite has started is an error, unless
    the process has not served yet and reports that a retry may succeed.

    Args:
        command: Returns program and arguments, given the settings that repeat the addresses of the first start.
        secrets: Settings that must not be on a command line, as environment variables.
        suite_started: False until the suite has started.
        restarts: Whether to restart it when it exits after that; otherwise the exit is an error.

    Attributes:
        ended: Each unexpected exit after it had served.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        home: Home,
        *,
        start_s: float = START_S,
        secrets: Mapping[str, str] = MappingProxyType({}),
        suite_started: bool = True,
        restarts: bool = True,
    ) -> None:
        self.name = name
        self._start_s = start_s
        self._command = command
        self._secrets = secrets
        self.suite_started = suite_started
        self._restarts = restarts
        self.ended: list[Ended] = []
        self._starts = 0
        self._log_begins = 0
        self._fixed: Mapping[str, str] = {}
        self._home = home
        self._served: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._stopping = False

    async def addresses(self) -> Mapping[str, str]:
        """
        Wait until it serves; return its addresses by kind, such as grpc and metrics.

        Raises:
            ConfigError: It exited before it served; the message contains its last output.
            UnavailableError: It did not serve in time.
        """
        return await asyncio.shield(self._served)

    async def run(self) -> None:
        """Keep it running until `stop`. Cancellation kills it immediately."""
        delays = backoff()
        while not self._stopping:
            code = await self._live()
            if self._stopping:
                return
            if self._served.done():
                ended = Ended(name=self.name, why=why_it_ended(code, self._said()), code=code)
                if not self.suite_started:
                    raise ConfigError(f"{self.name} ended while the suite started: {ended.why}")
                if not self._restarts:
                    raise UnavailableError(str(ended))
                self.ended.append(ended)
            log.warning("service_died", service=self.name, code=code, log=str(self._log))
            await asyncio.sleep(next(delays))

    async def stop(self) -> None:
        """Stop it gracefully; kill it after STOP_S. Idempotent."""
        self._stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        if not await end(process, STOP_S):
            log.warning("service_killed", service=self.name, after_s=STOP_S)

    @property
    def _log(self) -> Path:
        return self._home.logs / f"{self.name}.log"

    def _said(self) -> str:
        """Return its output since the last start."""
        with self._log.open("rb") as log_file:
            if log_file.seek(0, os.SEEK_END) >= self._log_begins:  # else the log was rotated
                log_file.seek(self._log_begins)
            else:
                log_file.seek(0)
            return log_file.read().decode(errors="replace")

    async def _live(self) -> int:
        self._home.addresses(self.name).unlink(missing_ok=True)
        with self._log.open("ab") as output:
            self._log_begins = output.tell()  # a kept directory has the logs of earlier runs
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command(self._fixed),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **self._home.environment, **self._secrets},
                # A group of its own: Ctrl-C reaches `tlt up` alone, which stops the others in order. Not a session of
                # its own: Linux first divides CPU time among sessions, and the services' is that of the program that
                # started them. Only spot trainers leave it, for one with a small share (`trainer.own_session`).
                process_group=0,
            )
        try:
            if not self._served.done():
                await self._await_first_serving(process)
            return await process.wait()
        finally:
            send(process, signal.SIGKILL)

    async def _await_first_serving(self, process: asyncio.subprocess.Process) -> None:
        path = self._home.addresses(self.name)
        try:
            async with asyncio.timeout(self._start_s):
                while not path.exists():
                    if process.returncode is not None and not self._stopping:
                        self._require_another_start(process.returncode)
                        return
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise UnavailableError(
                f"{self.name} did not serve within {self._start_s:g} s; last log line: {reason_in(self._said())}"
            ) from None
        addresses = json.loads(path.read_text())
        # Other processes use these addresses: a restart must reuse them.
        self._fixed = repeated(addresses)
        self._served.set_result(addresses)

    def _require_another_start(self, code: int) -> None:
        """
        Record that it exited before it served, and that `run` starts it again.

        Raises:
            ConfigError: It would exit again, or has been started STARTS times.
        """
        self._starts += 1
        reason = why_it_ended(code, self._said())
        if code != os.EX_TEMPFAIL or self._starts == STARTS:
            raise ConfigError(f"{self.name} did not start: {reason}")
        log.warning("service_start_failed", service=self.name, reason=reason, start=self._starts, starts=STARTS)
