"""The processes of a cluster: each with a log, each ended by its own pid and by nothing else."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

TERM_S, KILL_S = 10.0, 5.0
POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process by pid and by start time (in clock ticks since boot), since pids come back."""

    name: str
    pid: int
    started: str

    @classmethod
    def of(cls, name: str, pid: int) -> Self:
        return cls(name=name, pid=pid, started=_stat(pid)[19])

    def alive(self) -> bool:
        """Whether this very process still runs."""
        try:
            stat = _stat(self.pid)
        except (FileNotFoundError, ProcessLookupError):
            return False
        if stat[19] == self.started and stat[0] == "Z":
            with suppress(ChildProcessError):  # somebody else's child
                os.waitpid(self.pid, 0)
        return stat[19] == self.started and stat[0] != "Z"

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it may end by itself meanwhile
            os.kill(self.pid, number)

    def rss_mib(self) -> int:
        """Resident memory; 0 for a process that ended."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except FileNotFoundError:
            return 0
        return int(status.partition("VmRSS:")[2].split()[0]) // 1024 if "VmRSS:" in status else 0


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


class Processes:
    """
    What a cluster started, in order. Its list is kept in `folder`, so that a later run can end what a killed one left.

    Args:
        prefix: A command that runs each process somewhere else, for instance in a network namespace.
    """

    def __init__(self, folder: Path, prefix: Sequence[str] = ()) -> None:
        self._file = folder / "processes.json"
        self.logs = folder / "logs"
        self._prefix = tuple(prefix)
        listed = json.loads(self._file.read_text()) if self._file.exists() else []
        self._all = [Process(**entry) for entry in listed]

    def spawn(self, program: Path, *arguments: object, name: str = "", env: Mapping[str, str] | None = None) -> None:
        """Start a program, known by `name` or its own. It gets SIGTERM when this process dies without ending it."""
        self.logs.mkdir(parents=True, exist_ok=True)
        name = name or program.name
        with (self.logs / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [*self._prefix, "setpriv", "--pdeathsig", "TERM", str(program), *map(str, arguments)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for us: we end them in the right order
                env={**os.environ, **(env or {})},
            )
        started.returncode = 0  # `alive` reaps it; Popen's own finalizer would complain that it still runs
        self._all.append(Process.of(name, started.pid))
        self._file.write_text(json.dumps([asdict(process) for process in self._all]))

    def wait(self, what: str, ready: Callable[[], object], seconds: float = 60.0) -> None:
        """
        Poll until `ready` returns something true; an error of its means "not yet".

        Raises:
            RuntimeError: One of the processes ended meanwhile.
            TimeoutError: It took too long.
        """
        end, last = time.monotonic() + seconds, "no answer"
        while time.monotonic() < end:
            try:
                if ready():
                    return
            except Exception as error:  # noqa: BLE001 - any error of a starting service means "not yet"
                last = f"{type(error).__name__}: {error}"
            if dead := [process.name for process in self._all if not process.alive()]:
                raise RuntimeError(f"{dead} ended while waiting for {what}:\n{self.tail(dead[0])}")
            time.sleep(POLL_S)
        raise TimeoutError(f"{what}: not ready after {seconds:.0f} s ({last}); logs are in {self.logs}")

    def tail(self, name: str, lines: int = 15) -> str:
        """The end of a process's log."""
        log = self.logs / f"{name}.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def rss_mib(self) -> dict[str, int]:
        """Resident memory of each process that runs."""
        return {process.name: process.rss_mib() for process in self._all if process.alive()}

    def stop(self, *names: str) -> None:
        """End the named processes, or all of them: SIGTERM, and SIGKILL for those that stay."""
        self._end([process for process in self._all if not names or process.name in names])

    def stop_all_but(self, *names: str) -> None:
        """End all processes but the named ones."""
        self._end([process for process in self._all if process.name not in names])

    def _end(self, chosen: list[Process]) -> None:
        for number, grace_s in ((signal.SIGTERM, TERM_S), (signal.SIGKILL, KILL_S)):
            for process in chosen:
                if process.alive():
                    process.signal(number)
            end = time.monotonic() + grace_s
            while any(process.alive() for process in chosen) and time.monotonic() < end:
                time.sleep(POLL_S / 2)
        if left := [process.name for process in chosen if process.alive()]:
            raise RuntimeError(f"{left} cannot be ended")
