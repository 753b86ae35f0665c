"""One engine per scene; a scene is played once and its outcome looked at by several tests."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOST = Path(__file__).parent / "host.py"

SCENE_S = 560.0


@pytest.fixture(scope="module")
def play(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Play a scene of `scenes.py`, or of MODULE as `MODULE.SCENE`, in its own process; return what it returns."""

    def run(scene: str) -> dict[str, Any]:
        work = tmp_path_factory.mktemp(scene)
        result = work / "result.pickle"
        done = subprocess.run(
            [sys.executable, str(HOST), scene, str(result), str(work)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            timeout=SCENE_S,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        outcome: dict[str, Any] = pickle.loads(result.read_bytes())  # noqa: S301 - written by our own child
        return outcome

    return run
