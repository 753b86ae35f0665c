"""A terminating pod leaves Ray first: real Ray, real Serve, a replica that takes a moment to stop."""

import json
import socket
import subprocess
import sys
from pathlib import Path

from tlt_worker.placement.leave import leave, reachable

SCRIPT = Path(__file__).with_name("leaving.py")


def test_serve_ends_the_replica_in_order_before_ray_leaves(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "record"), str(tmp_path / "result")],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = json.loads((tmp_path / "result").read_text())
    assert said["left"], said
    assert said["in_time"], said
    assert "ended" in said["at_return"], said
    assert said["after"].count("started") >= 2, said  # restarted on the other node
    assert not said["again"], said


def test_without_a_head_there_is_nothing_to_leave() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening
        endpoint = f"127.0.0.1:{unused.getsockname()[1]}"
        assert not reachable(endpoint)
        assert not leave(endpoint, "127.0.0.1", 1)
