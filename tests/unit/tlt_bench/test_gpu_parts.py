"""The parts of `tlt bench gpu`: run, skipped, kept and repeated."""

import time
from pathlib import Path

import psutil
import pytest

from tlt_bench.gpu.part import RESULT, GpuPart
from tlt_bench.gpu.parts import PARTS
from tlt_bench.gpu.run import run, table
from tlt_common.errors import ConfigError

WRITES = "import json, sys, pathlib; pathlib.Path(sys.argv[1]).write_text(json.dumps({'figures': {'ratio': 1.5}}))"


def part(name: str, code: str, *, needs_gpu: bool = False) -> GpuPart:
    return GpuPart(name=name, shows=f"that {name} works", command=("-c", code, RESULT), needs_gpu=needs_gpu)


def statuses(parts: list[GpuPart], directory: Path, *, has_gpu: bool = False, limit_s: float = 60.0) -> dict[str, str]:
    outcomes = run(parts, directory, has_gpu=has_gpu, log=lambda _: None, limit_s=limit_s)
    return {one.name: one.status for one in outcomes}


def test_a_part_that_passed_is_kept_and_one_that_failed_runs_again(tmp_path: Path) -> None:
    parts = [part("good", WRITES), part("bad", "print('why'); raise SystemExit(3)")]
    assert statuses(parts, tmp_path) == {"good": "passed", "bad": "failed"}
    again = run([part("good", "raise SystemExit(1)"), part("bad", WRITES)], tmp_path, has_gpu=False, log=lambda _: None)
    assert [(one.status, one.figures) for one in again] == [("passed", {"ratio": 1.5})] * 2


def test_the_end_of_a_failed_parts_output_is_kept(tmp_path: Path) -> None:
    (outcome,) = run([part("bad", "print('the reason'); raise SystemExit(3)")], tmp_path, has_gpu=False, log=print)
    assert "the reason" in outcome.tail
    assert "the reason" in (tmp_path / "bad.log").read_text()


def test_without_a_gpu_what_needs_one_is_skipped_by_name_and_runs_where_there_is_one(tmp_path: Path) -> None:
    parts = [part("any", WRITES), part("card", WRITES, needs_gpu=True)]
    assert statuses(parts, tmp_path) == {"any": "passed", "card": "skipped: no GPU"}
    assert statuses(parts, tmp_path, has_gpu=True) == {"any": "passed", "card": "passed"}


def test_a_part_ends_at_its_limit(tmp_path: Path) -> None:
    assert statuses([part("slow", "import time; time.sleep(60)")], tmp_path, limit_s=1.0) == {"slow": "timed out"}


def test_what_a_part_started_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import subprocess, sys, time, pathlib\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(child.pid))\n"
        "time.sleep(60)"
    )
    assert statuses([part("slow", code)], tmp_path, limit_s=5.0) == {"slow": "timed out"}
    if not pid.exists():
        pytest.skip("no process starts here within 5 s")
    child = int(pid.read_text())
    for _ in range(500):  # a process killed still runs until the kernel gets to it
        if _has_ended(child):
            return
        time.sleep(0.02)
    pytest.fail(f"process {child} still runs")


def _has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_table_names_commands_statuses_and_figures(tmp_path: Path) -> None:
    outcomes = run([part("good", WRITES)], tmp_path, has_gpu=False, log=print)
    page = table(outcomes, {"GPUs": "none"})
    assert "| good | that good works | passed |" in page
    assert "`ratio` 1.5" in page
    assert "python -c" in page


def test_a_directory_that_cannot_be_made_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--keep"):
        run([], tmp_path / "file" / "below", has_gpu=False, log=print)


def test_names_are_unique_and_tests_exist() -> None:
    names = [each.name for each in PARTS]
    assert len(set(names)) == len(names)
    paths = [word for each in PARTS for word in each.command if word.startswith("tests/")]
    assert paths
    assert all((Path(__file__).parents[3] / path).exists() for path in paths)
