"""The whole suite, started and ended as people do it: nothing stays, whatever the moment and the signal."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tlt_lab.up import guard

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

MODEL = Path(__file__).parents[3] / "services" / "tlt_lab" / "demo" / "checkpoint"
START_S = 600.0
"""Two engines on a crowded machine."""
END_S = 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """One `tlt up`."""

    process: subprocess.Popen[str]

    def home(self) -> tuple[str, Path] | None:
        """Token and directory, as its guard was told; None before there is one."""
        for entry in Path("/proc").iterdir():
            try:
                command = (entry / "cmdline").read_text().split("\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent == self.process.pid and any(part.endswith("up/guard.py") for part in command):
                return command[-3], Path(command[-2])
        return None

    def until(self, holds: Callable[[Path], bool]) -> tuple[str, Path]:
        """Wait for a moment in its life."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            assert self.process.poll() is None, self.process.communicate()
            if (home := self.home()) and holds(home[1]):
                return home
            wait_a_moment()
        raise AssertionError("the moment did not come")


def wait_a_moment() -> None:
    """Other processes are watched: there is no clock of ours to move."""
    time.sleep(0.05)


def gone(token: str, directory: Path) -> bool:
    deadline_s = time.monotonic() + END_S
    while guard.doomed(guard.processes(token), spared=0) or directory.exists():
        if time.monotonic() > deadline_s:
            return False
        wait_a_moment()
    return True


@pytest.fixture
def run() -> Iterator[Run]:
    command = [sys.executable, "-m", "tlt_common.cli", "up", "--model", str(MODEL), "--workers", "2", "--port", "0"]
    shared_memory = set(os.listdir("/dev/shm"))  # noqa: PTH208, S108 - names only
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        yield Run(process)
        process.kill()
    assert set(os.listdir("/dev/shm")) <= shared_memory  # noqa: PTH208, S108


def has(name: str) -> Callable[[Path], bool]:
    return lambda home: (home / name).exists()


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "at once": lambda _: True,
    "while services start": has("data/logs/coordinator.log"),
    "while Ray starts": has("fleet.json"),
    "while Serve starts": has("ray/session_latest/logs/serve"),
    "while engines start": has("data/logs/worker-1.log"),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_leaves_nothing(run: Run, moment: str) -> None:
    token, directory = run.until(MOMENTS[moment])
    run.process.send_signal(signal.SIGINT)
    _, errors = run.process.communicate(timeout=END_S)
    assert run.process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert gone(token, directory)


@pytest.mark.parametrize("moment", ["while Ray starts", "while engines start"])
def test_ctrl_c_twice_leaves_nothing_either(run: Run, moment: str) -> None:
    token, directory = run.until(MOMENTS[moment])
    for _ in range(2):
        run.process.send_signal(signal.SIGINT)
        wait_a_moment()
    _, errors = run.process.communicate(timeout=END_S)
    assert "Traceback" not in errors
    assert gone(token, directory)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_takes_everything_with_it(run: Run, moment: str) -> None:
    token, directory = run.until(MOMENTS[moment])
    run.process.kill()
    run.process.communicate(timeout=END_S)
    assert gone(token, directory)
