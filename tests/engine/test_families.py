"""Other families of models, and what is left when an engine or its owner ends."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

START_S = 240.0
END_S = 15.0


@pytest.mark.parametrize("family", ["qwen2", "qwen3"])
def test_a_family_of_models_is_served_with_drafts(play: Callable[[str], dict[str, Any]], family: str) -> None:
    told = play(family)
    assert list(told["said"].token_ids) == told["expected"]
    assert told["said"].stats.rounds > 1
    assert told["left"] == [], "a closed engine leaves no process"


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], limit_s: float) -> bool:
    give_up_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > give_up_s:
            return False
        threading.Event().wait(0.05)
    return True


def test_a_killed_worker_leaves_no_engine_behind(tmp_path: Path) -> None:
    host = Path(__file__).parent / "host.py"
    with subprocess.Popen(
        [sys.executable, str(host), "orphans", str(tmp_path / "result"), str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as worker:
        try:
            named = tmp_path / "pids"
            assert wait_for(lambda: named.exists() or worker.poll() is not None, START_S)
            pids = [int(pid) for pid in named.read_text().split()]
            assert len(pids) >= 1
            assert all(map(is_running, pids))
        finally:
            worker.send_signal(signal.SIGKILL)
        assert wait_for(lambda: not any(map(is_running, pids)), END_S)
