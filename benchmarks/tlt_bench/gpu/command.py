"""`tlt bench gpu`."""

from collections.abc import Sequence
from pathlib import Path

from countdown.machine import machine, versions
from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import check_parts
from tlt_bench.gpu.parts import PARTS
from tlt_bench.gpu.run import run, table
from tlt_bench.result import Result
from tlt_worker.hardware.cuda import gpus


def measure(directory: Path, names: Sequence[str]) -> tuple[Result, bool]:
    """
    Run the parts, all by default, and write README.md into `directory`; return the result and whether none failed.

    Raises:
        ConfigError: A part is unknown, or the directory cannot be written.
    """
    wanted = check_parts(names or [part.name for part in PARTS], [part.name for part in PARTS])
    cards = [f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB" for gpu in gpus()]
    known = {"GPUs": "; ".join(cards) or "none", "machine": machine(), **versions()}
    outcomes = run([part for part in PARTS if part.name in wanted], directory, has_gpu=bool(cards), log=log)
    (directory / "README.md").write_text(table(outcomes, known))
    figures = {f"{one.name}_{name}": value for one in outcomes for name, value in one.figures.items()}
    statuses = {one.name: one.status for one in outcomes}
    result = Result(name="gpu", figures=figures, spread={}, repeats=1, notes={**statuses, "GPUs": known["GPUs"]})
    return result, not any(one.status in {"failed", "timed out"} for one in outcomes)
