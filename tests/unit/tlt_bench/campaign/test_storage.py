"""The part `storage`: its faults are undone, and its clock jumps for running processes, but only the wall clock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tlt_bench.campaign.part import Outcome
from tlt_bench.campaign.storage import clocks
from tlt_bench.campaign.storage.clocks import DAY_S, JUMPS_S, ShiftedClock, clock_at
from tlt_bench.campaign.storage.faults import local_faults, remote_faults
from tlt_bench.campaign.storage.object_store import FailingCalls
from tlt_bench.campaign.storage.part import both
from tlt_bench.campaign.storage.redis import RedisControl
from tlt_worker.engine.launch import environment

READER = """
import sys, time
for _ in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""


@pytest.mark.skipif(bool(clocks.why_not()), reason=clocks.why_not())
def test_a_running_process_sees_the_jump_on_the_wall_clock_only(tmp_path: Path) -> None:
    clock = clock_at(tmp_path / "clock")
    assert clock is not None
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        [sys.executable, "-c", READER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None

        def read() -> tuple[float, float]:
            assert reader.stdout is not None
            print(file=reader.stdin, flush=True)
            wall_s, monotonic_s = map(float, reader.stdout.readline().split())
            return wall_s, monotonic_s

        before_s, began_s = read()
        for offset_s in (DAY_S, -DAY_S, 0):
            clock.set(offset_s)
            while True:  # the file is read once a second
                wall_s, now_s = read()
                jump_s = (wall_s - before_s) - (now_s - began_s)
                if abs(jump_s - offset_s) < 1:
                    break
            assert now_s >= began_s
        reader.stdin.close()


def test_a_clock_is_set_whole_or_not_at_all(tmp_path: Path) -> None:
    clock = ShiftedClock(file=tmp_path / "clock", library=tmp_path)
    clock.set(-DAY_S)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["-86400\n"]


async def test_every_fault_is_undone(tmp_path: Path) -> None:
    store, clock = FailingCalls(), ShiftedClock(file=tmp_path / "clock", library=tmp_path)
    faults = remote_faults(store, clock)
    assert set(faults) == {"object store failing", "object store down", *JUMPS_S}
    for name, fault in faults.items():
        async with fault():
            held = (store.one_in, clock.file.read_text() if clock.file.exists() else "")
        assert held != (0, "+0\n"), name
        assert store.one_in == 0
    assert clock.file.read_text() == "+0\n"


def test_without_libfaketime_clocks_stay_and_the_reason_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "find_spec", lambda _: None)
    assert clock_at(tmp_path / "clock") is None
    assert "libfaketime" in clocks.why_not()
    assert not set(remote_faults(FailingCalls(), None)) & set(JUMPS_S)


def test_faults_on_this_machine_are_those_of_redis_without_disks() -> None:
    assert set(local_faults(RedisControl(socket=Path("/none")), ())) == {
        "Redis full", "Redis slow", "Redis flushed", "Redis restarted"
    }  # fmt: skip


def test_variables_are_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TLT_KEPT", "before")
    with environment({"TLT_KEPT": "within", "TLT_NEW": "within"}):
        assert (os.environ["TLT_KEPT"], os.environ["TLT_NEW"]) == ("within", "within")
    assert os.environ["TLT_KEPT"] == "before"
    assert "TLT_NEW" not in os.environ


def test_the_figures_of_two_suites_are_added_and_the_longest_update_is_the_longest() -> None:
    first = Outcome(figures={"lost": 0, "faults": 6, "update_s_max": 9.0}, findings=("one",))
    second = Outcome(figures={"lost": 1, "faults": 7, "update_s_max": 8.0}, findings=("two",))
    assert both(first, second) == Outcome(
        figures={"lost": 1, "faults": 13, "update_s_max": 9.0}, findings=("one", "two")
    )
