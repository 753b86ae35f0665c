"""
Memory of CUDA graphs, as planned and naively: `python -m tlt_bench.gpu.graphs FILE MODEL DRAFTER`.

The comparison of the TLT paper's Table 5, measured by the decrease of free device memory during capture: all default
arms as planned; each arm captured separately at every batch size at which any arm drafts; and the most expensive arm
alone.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import CUDA_ARMS, EngineConfig
from tlt_worker.experiment import Experiment

CONTEXT: Final = 8192
RUNNING: Final = 32
ARMS: Final = tuple(arm.name for arm in CUDA_ARMS)
ALONE: Final = ("off", "tree-8x8-64")
CASES: Final = {"planned": (ARMS, True), "naive": (ARMS, False), "single": (ALONE, False)}
"""Arms, and whether they share graphs, by name of the figure."""
ROW: Final = "CUDA graphs"


def main(path: Path, model: Path, drafter: Path) -> None:
    """Start an engine for each case, in separate processes, and compare."""
    figures = {}
    for case in CASES:
        file = path.with_suffix(f".{case}")
        subprocess.run([sys.executable, "-m", __spec__.name, "case", case, file, model, drafter], check=True)
        figures[f"{case}_gib"] = float(file.read_text())
        file.unlink()
    planned = figures["planned_gib"] or float("nan")
    figures |= {
        "naive_over_planned": figures["naive_gib"] / planned,
        "single_over_planned": figures["single_gib"] / planned,
    }
    path.write_text(json.dumps({"figures": figures}) + "\n")


async def measure(case: str, model: Path, drafter: Path) -> float:
    """Return the GiB of an engine's graphs."""
    arms, shares = CASES[case]
    config = EngineConfig(
        arms=arms, drafter=drafter, max_running=RUNNING, context_length=CONTEXT, max_total_tokens=4 * CONTEXT
    )
    engine = SglangEngine(model, config, Experiment(shares_graphs=shares))
    try:
        return (await engine.start()).memory_gib[ROW]
    finally:
        await engine.aclose()


if __name__ == "__main__":
    if sys.argv[1] == "case":
        Path(sys.argv[3]).write_text(str(asyncio.run(measure(sys.argv[2], *map(Path, sys.argv[4:6])))))
    else:
        main(*map(Path, sys.argv[1:4]))
