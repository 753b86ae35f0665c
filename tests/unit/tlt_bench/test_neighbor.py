"""What Linux accounts to processes, with real ones."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tlt_bench.neighbor.measure import SIDES, figures_of, suite
from tlt_bench.neighbor.programs import busy_loop, of_suite, rates, used_by
from tlt_local.configuration.settings import spelled
from tlt_local.supervision.guard import environment
from tlt_trainer.config import TrainerConfig


def test_a_busy_loop_runs_in_a_session_of_its_own_and_uses_processor_time() -> None:
    with busy_loop() as pids:
        (pid,) = pids
        assert os.getsid(pid) == pid
        cores, slices = rates(pids, 0.3)
        assert cores > 0
        assert slices >= 0
    assert not Path(f"/proc/{pid}").exists()
    assert used_by(pids).cpu_s == 0


def test_only_the_processes_of_its_own_suite_are_counted() -> None:
    command = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(environment("mine"))) as mine,
        subprocess.Popen(command, stdin=subprocess.PIPE, env=dict(environment("other"))) as other,
    ):
        assert mine.pid in of_suite("mine")
        assert not {other.pid, os.getpid()} & of_suite("mine")
        for process in (mine, other):
            process.communicate()


@pytest.mark.parametrize("own_session", SIDES.values())
def test_the_suites_settings_are_those_of_a_trainer(own_session: str) -> None:
    settings: Mapping[str, str] = spelled(suite(Path("model"), own_session).settings["trainer"])
    given = {"socket": "s", "model": "m", "drafter_dir": "d", "checkpoint_dir": "c"}
    flat = {key: value for key, value in settings.items() if "." not in key}
    assert TrainerConfig.model_validate(given | flat).own_session == (own_session == "true")


def test_figures_are_medians_over_turns() -> None:
    found = figures_of({"neighbor_share": [0.4, 0.5, 0.6], "idle_suite_cores": [0.1, 0.2]})
    assert found.figures["neighbor_share"] == 0.5
    assert found.spread["neighbor_share"] == (0.4, 0.6)
    assert "neighbor_share" in found.notes
