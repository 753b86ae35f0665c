"""Implementation of `tlt bench gpu`."""

from collections.abc import Sequence
from pathlib import Path

from countdown.machine import machine, versions
from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import check_parts
from tlt_bench.gpu.page import page
from tlt_bench.gpu.parts import PARTS
from tlt_bench.gpu.run import run, table, with_needed
from tlt_bench.result import Result
from tlt_worker.hardware.cuda import gpus


def measure(directory: Path, names: Sequence[str], models: Path | None) -> tuple[Result, bool]:
    """
    Run the parts, all by default, and write README.md and index.html into `directory`.

    Returns:
        The result, and whether no part failed.

    Raises:
        ConfigError: A part is unknown, or the directory cannot be written.
    """
    wanted = check_parts(names or [part.name for part in PARTS], [part.name for part in PARTS])
    cards = [f"{gpu.name}, {gpu.memory / 2**30:.0f} GiB" for gpu in gpus()]
    known = {"GPUs": "; ".join(cards) or "none", "machine": machine(), **versions()}
    outcomes = run(with_needed(wanted, PARTS), directory, has_gpu=bool(cards), log=log, models=models)
    (directory / "README.md").write_text(table(outcomes, known))
    (directory / "index.html").write_text(page(outcomes, known))
    figures = {f"{one.name}_{name}": value for one in outcomes for name, value in one.figures.items()}
    statuses = {one.name: one.status for one in outcomes}
    result = Result(name="gpu", figures=figures, spread={}, repeats=1, notes={**statuses, "GPUs": known["GPUs"]})
    return result, not any(one.status in {"failed", "timed out"} for one in outcomes)
