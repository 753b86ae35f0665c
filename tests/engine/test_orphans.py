"""Processes that remain when an engine's owner ends."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.engine import host
from tests.engine.scenes import family
from tests.fakes.machine import lives

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

START_S = 240.0
END_S = 15.0


def wait_for(condition: Callable[[], bool], limit_s: float) -> bool:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        threading.Event().wait(0.05)
    return True


def test_a_killed_worker_leaves_no_engine_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        host.command(family.orphans, tmp_path / "result", tmp_path),
        cwd=host.ROOT,
        env=host.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:
        try:
            pids_file = tmp_path / "pids"
            assert wait_for(lambda: pids_file.exists() or worker.poll() is not None, START_S)
            pids = [int(pid) for pid in pids_file.read_text().split()]
            assert len(pids) >= 1
            assert all(map(lives, pids))
        finally:
            worker.send_signal(signal.SIGKILL)
        assert wait_for(lambda: not any(map(lives, pids)), END_S)
