"""The whole suite, started and stopped from the command line: nothing is left behind, whatever the moment and the
signal."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from tlt_common.processes.guard import doomed, shared_memory
from tlt_local.supervision import guard

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

MODEL = Path(__file__).parents[3] / "demos" / "countdown" / "countdown" / "checkpoint"
START_S = 600.0
"""Enough for two engines on a busy machine."""
END_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """One `tlt up`."""

    process: subprocess.Popen[str]

    def home(self) -> tuple[str, Path] | None:
        """Return the token and directory on its guard's command line; None before the guard runs."""
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_text().split("\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and "tlt_local.supervision.guard" in command:
                return command[-3], Path(command[-2])
        return None

    def until(self, holds: Callable[[Path], bool]) -> tuple[str, Path]:
        """Wait until `holds` is true of the run's directory; return its token and directory."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.process.communicate()
            if (home := self.home()) and holds(home[1]):
                return home
            wait_a_moment()
        raise AssertionError("the moment did not come")


def wait_a_moment() -> None:
    """Sleep in real time, since the state of other processes is polled."""
    time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Traces:
    """What a run has created so far, including outside its directory."""

    token: str
    directory: Path
    shared_memory: frozenset[Path]

    @classmethod
    def of(cls, token: str, directory: Path) -> Self:
        pids = doomed(guard.processes(token), spared=0)
        return cls(token, directory, frozenset(path for pid in pids for path in shared_memory(pid)))

    def are_gone(self) -> bool:
        """Wait until nothing is left; return False if something remains."""
        deadline_s = time.monotonic() + END_S
        while self._left():
            if time.monotonic() > deadline_s:
                return False
            wait_a_moment()
        return True

    def _left(self) -> bool:
        alive = doomed(guard.processes(self.token), spared=0)
        return bool(alive) or self.directory.exists() or any(path.exists() for path in self.shared_memory)


@pytest.fixture
def run() -> Iterator[Run]:
    command = [sys.executable, "-m", "tlt_common.cli", "up", "--model", str(MODEL), "--workers", "2", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield Run(process)
        process.kill()


def has(name: str) -> Callable[[Path], bool]:
    return lambda home: (home / name).exists()


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "at once": lambda _: True,
    "while services start": has("data/logs/coordinator.log"),
    "while Ray starts": has("fleet.json"),
    "while Serve starts": has("ray/session_latest/logs/serve"),
    "while engines start": has("data/logs/worker-1.log"),
    "while it serves": has("addresses/workers.json"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_leaves_nothing(run: Run, moment: str) -> None:
    traces = Traces.of(*run.until(MOMENTS[moment]))
    run.process.send_signal(signal.SIGINT)
    _, errors = run.process.communicate(timeout=END_S)
    assert run.process.returncode in {0, 128 + signal.SIGINT}  # 0 if it was already serving
    assert "Traceback" not in errors
    assert traces.are_gone()


@pytest.mark.parametrize("moment", ["while Ray starts", "while engines start"])
def test_ctrl_c_twice_leaves_nothing_either(run: Run, moment: str) -> None:
    traces = Traces.of(*run.until(MOMENTS[moment]))
    for _ in range(2):
        run.process.send_signal(signal.SIGINT)
        wait_a_moment()
    _, errors = run.process.communicate(timeout=END_S)
    assert "Traceback" not in errors
    assert traces.are_gone()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_takes_everything_with_it(run: Run, moment: str) -> None:
    traces = Traces.of(*run.until(MOMENTS[moment]))
    run.process.kill()
    run.process.communicate(timeout=END_S)
    assert traces.are_gone()
