"""The parts of `tlt bench gpu`: run, skipped, kept and repeated."""

import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tlt_bench.gpu.page import page
from tlt_bench.gpu.part import KEPT, MODELS, RESULT, GpuOutcome, GpuPart
from tlt_bench.gpu.parts import PARTS
from tlt_bench.gpu.published import PUBLISHED
from tlt_bench.gpu.run import run, table, with_needed
from tlt_common.errors import ConfigError
from tlt_local.models.published import SMOLLM2

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


def test_without_its_model_a_part_is_skipped_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    parts = [replace(part("text", WRITES), model=SMOLLM2)]
    assert statuses(parts, tmp_path) == {
        "text": "skipped: smollm2 is not on this machine; `tlt models get smollm2` fetches it"
    }
    SMOLLM2.directory.mkdir(parents=True)
    (SMOLLM2.directory / "config.json").write_text("{}")
    assert statuses(parts, tmp_path) == {"text": "passed"}


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


def test_a_part_reads_what_the_parts_before_it_wrote(tmp_path: Path) -> None:
    reads = (
        "import json, sys, pathlib\n"
        "found = json.loads(pathlib.Path(sys.argv[2], 'good.figures.json').read_text())\n"
        "found['figures']['models'] = len(sys.argv[3])\n"
        "pathlib.Path(sys.argv[1]).write_text(json.dumps(found))"
    )
    later = GpuPart(name="later", shows="both", command=("-c", reads, RESULT, KEPT, f"{MODELS}/7b"), after=("good",))
    _, outcome = run([part("good", WRITES), later], tmp_path, has_gpu=False, log=print, models=Path("/m"))
    assert outcome.status == "passed", outcome.tail
    assert outcome.figures == {"ratio": 1.5, "models": len("/m/7b")}
    assert outcome.command.endswith("FILE KEPT MODELS/7b")


def test_without_what_it_needs_a_part_is_skipped_by_name(tmp_path: Path) -> None:
    later = GpuPart(name="later", shows="both", command=("-c", WRITES, RESULT), after=("bad",))
    assert statuses([part("bad", "raise SystemExit(3)"), later], tmp_path) == {
        "bad": "failed",
        "later": "skipped: bad has not passed",
    }
    assert statuses([part("bad", WRITES), later], tmp_path) == {"bad": "passed", "later": "passed"}


def test_a_part_that_is_asked_for_brings_what_it_needs() -> None:
    assert [one.name for one in with_needed(["grid"], PARTS)] == ["models", "accept", "grid"]
    assert with_needed([each.name for each in PARTS], PARTS) == list(PARTS)
    for place, each in enumerate(PARTS):
        assert set(each.after) <= {one.name for one in PARTS[:place]}, each.name


def test_figures_are_logged_as_they_come(tmp_path: Path) -> None:
    lines: list[str] = []
    run([part("good", WRITES)], tmp_path, has_gpu=False, log=lines.append)
    assert lines[-1].split() == ["ratio", "1.5"]


def test_the_page_sets_figures_beside_the_papers_and_shows_the_grid() -> None:
    figures = {"cost_chain-3_bs1": 1.25, "cost_chain-3_bs8": 1.5, "speed_chain-3_bs1": 2.4, "accept_chain-3_bs1": 3.0}
    outcomes = [
        GpuOutcome(name="grid", shows="costs", command="c", seconds=9, status="passed", figures=figures),
        GpuOutcome(
            name="graphs", shows="bytes", command="c", seconds=9, status="failed", tail="<out of memory>",
            figures={"naive_over_planned": 2.5},
        ),
    ]  # fmt: skip
    text = page(outcomes, {"GPUs": "H100 & more"})
    assert "1 of 2 parts passed" in text
    assert "H100 &amp; more" in text
    assert "&lt;out of memory&gt;" in text
    beside = text.split("graphs_naive_over_planned")[1]
    assert beside.index("2.5") < beside.index("2.84")
    assert '<td>chain-3</td><td class="n">1.25</td><td class="n">1.50</td>' in text
    assert "cost_chain-3_bs1" not in text
    assert "src=" not in text


def test_published_figures_belong_to_parts() -> None:
    names = {each.name for each in PARTS}
    assert all(name.partition("_")[0] in names for name in PUBLISHED)


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
