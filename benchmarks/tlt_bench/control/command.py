"""Runs the fleets, one process each, and compares them with the smallest."""

import json
import os
import subprocess
import sys

from tlt_bench.control.fleet import MEASURED_S, SIZES, Measured, shape_of
from tlt_bench.result import Result
from tlt_common.errors import EngineError


def measure(sizes: tuple[int, ...] = SIZES) -> Result:
    """Measure a coordinator under each size of fleet."""
    return result_of({size: _run(size) for size in sizes})


def result_of(measured: dict[int, Measured]) -> Result:
    """Return the figures of all sizes, and their ratios to the smallest."""
    smallest = measured[min(measured)]
    figures: dict[str, float] = {}
    for size, fleet in measured.items():
        figures[f"decision_ms_p99_{size}"] = fleet.p99_ms
        figures[f"cpu_share_{size}"] = fleet.cpu_share
        figures[f"rss_mib_{size}"] = fleet.rss_mib
        figures[f"connected_{size}"] = fleet.connected
        if fleet is not smallest:
            figures[f"decision_vs_smallest_{size}"] = fleet.p99_ms / smallest.p99_ms
            figures[f"cpu_vs_smallest_{size}"] = fleet.cpu_share / smallest.cpu_share
            figures[f"rss_vs_smallest_{size}"] = fleet.rss_mib / smallest.rss_mib
    return Result(
        name="control",
        figures=figures,
        spread={
            f"decision_ms_p99_{size}": (fleet.decisions_ms[len(fleet.decisions_ms) // 2], fleet.decisions_ms[-1])
            for size, fleet in measured.items()
        },
        repeats=1,
        notes={
            "decision_ms": "from the report of a worker that took its device back to the revocation of its lease, in "
            "the coordinator's process; spread: median and maximum",
            "workers": "; ".join(_described(size) for size in measured),
            "cpu_share": f"CPU seconds of the coordinator's process per second over {MEASURED_S:g} s, with the "
            "simulation of the workers that call it directly",
            "load": f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the end",
        },
    )


def _described(size: int) -> str:
    shape = shape_of(size)
    return f"{size}: {shape.streams} over gRPC streams of their own, {shape.direct} by direct calls"


def _run(size: int) -> Measured:
    """
    Measure one size.

    Raises:
        EngineError: The process failed.
    """
    command = [sys.executable, "-m", "tlt_bench.control.host", str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise EngineError(f"the coordinator with {size} workers failed: {ended.stderr[-2000:]}")
    return Measured(**json.loads(ended.stdout.splitlines()[-1]))
