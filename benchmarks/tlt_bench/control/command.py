"""Runs the fleets, one process each, and compares them to the smallest."""

import json
import os
import subprocess
import sys
from typing import Any

from tlt_bench.control.fleet import MEASURED_S, SIZES, STREAMS_PER_CONNECTION, WAVES, MeasuredFleet, Spread
from tlt_bench.result import Result
from tlt_common.errors import EngineError

P99 = ("decision_ms", "roundtrip_ms", "loop_lag_ms")
WAVE = ("recall_first_ms", "recall_all_ms", "lend_first_ms", "lend_all_ms")
SINGLE = ("reports_per_s", "cpu_share", "waiting_share", "rss_mib", "connected", "load")


def measure(sizes: tuple[int, ...] = SIZES) -> Result:
    """Measure a coordinator under each size of fleet."""
    return result_of({size: _measured(size) for size in sizes}, {size: _alone_us(size) for size in sizes})


def result_of(measured: dict[int, MeasuredFleet], alone_us: dict[int, float]) -> Result:
    """Return the figures of all sizes, and their ratios to the smallest."""
    smallest, smallest_alone_us = measured[min(measured)], alone_us[min(measured)]
    figures: dict[str, float] = {}
    spread: dict[str, tuple[float, float]] = {}
    for size, fleet in measured.items():
        for name in P99:
            times: Spread = getattr(fleet, name)
            figures[f"{name}_p99_{size}"] = times.p99
            spread[f"{name}_p99_{size}"] = (times.median, times.max)
        for name in WAVE:
            wave: Spread = getattr(fleet, name)
            figures[f"{name}_{size}"] = wave.median
            spread[f"{name}_{size}"] = (wave.median, wave.max)
        for name in SINGLE:
            figures[f"{name}_{size}"] = getattr(fleet, name)
        figures[f"decision_us_{size}"] = alone_us[size]
        if fleet is not smallest:
            figures[f"decision_vs_smallest_{size}"] = fleet.decision_ms.p99 / smallest.decision_ms.p99
            figures[f"decision_us_vs_smallest_{size}"] = alone_us[size] / smallest_alone_us
            figures[f"cpu_vs_smallest_{size}"] = fleet.cpu_share / smallest.cpu_share
            figures[f"rss_vs_smallest_{size}"] = fleet.rss_mib / smallest.rss_mib
    return Result(
        name="control",
        figures=figures,
        spread=spread,
        repeats=1,
        notes={
            "decision_ms": "in the coordinator, from the report of a worker that took its device back, as gRPC hands "
            "it over, to the revocation of its lease, as gRPC gets it; spread: median and maximum",
            "roundtrip_ms": "the same as the worker sees it, through gRPC and the delays of both processes",
            "loop_lag_ms": "how late the coordinator's event loop runs a timer",
            "decision_us": "CPU time of one such decision in a coordinator with as many workers and nothing else to do",
            "recall_ms, lend_ms": "from the report of a queued request or an empty queue to the first and the last "
            f"order; median and maximum of {WAVES} waves",
            "workers": f"every worker has a gRPC stream; {STREAMS_PER_CONNECTION} share a connection",
            "cpu_share": f"CPU seconds of the coordinator's process per second over {MEASURED_S:g} s",
            "waiting_share": "seconds per second in which the coordinator's event loop waited for a core",
            "load": f"load average of the machine, which has {os.cpu_count()} cores and runs the simulated workers too",
        },
    )


def _measured(size: int) -> MeasuredFleet:
    fields: dict[str, Any] = json.loads(_printed("host", size))
    spreads = {name: Spread(**value) for name, value in fields.items() if isinstance(value, dict)}
    return MeasuredFleet(**(fields | spreads))


def _alone_us(size: int) -> float:
    return float(_printed("alone", size))


def _printed(module: str, size: int) -> str:
    """
    Return the last output of the process for this size.

    Raises:
        EngineError: The process failed.
    """
    command = [sys.executable, "-m", f"tlt_bench.control.{module}", str(size)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise EngineError(f"the coordinator with {size} workers failed: {ended.stderr[-2000:]}")
    return ended.stdout.splitlines()[-1]
