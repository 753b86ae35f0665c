"""GPUs visible to the replicas of the local placement, on a Ray with four simulated GPUs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tlt_worker.engine.device import detect


def seen(replicas: int, gpus: int, directory: Path) -> list[tuple[list[str], str]]:
    """Return the visible GPUs and the device of each replica."""
    command = [sys.executable, "-m", "tests.fakes.ray_gpus", str(replicas), str(gpus), str(directory)]
    run = subprocess.run(command, cwd=Path(__file__).parents[3], capture_output=True, text=True, check=True)
    return [(visible, kind) for visible, kind in json.loads(run.stdout.splitlines()[-1])]


@pytest.mark.parametrize(("replicas", "gpus"), [(2, 1), (2, 2)])
def test_replicas_see_disjoint_gpus_and_detect_no_device_that_is_not_there(
    tmp_path: Path, replicas: int, gpus: int
) -> None:
    found = seen(replicas, gpus, tmp_path)
    assert [len(visible) for visible, _ in found] == [gpus] * replicas
    assert len({gpu for visible, _ in found for gpu in visible}) == replicas * gpus
    if detect().kind == "cpu":
        assert {kind for _, kind in found} == {"cpu"}


def test_replicas_without_gpus_see_none_and_run_on_the_cpu(tmp_path: Path) -> None:
    assert seen(1, 0, tmp_path) == [([], "cpu")]
