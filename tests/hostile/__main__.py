"""`make hostile`: sends all inputs, prints what is answered wrongly, and writes figures to reports/hostile.json."""

import json
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.hostile.attempt import wrong_with
from tests.hostile.inputs import inputs
from tests.hostile.targets import Target, targets

REPORT = Path("reports/hostile.json")
FIGURES_EVERY = 10
"""Inputs between two looks at the figures, to say which of them took memory or time."""


def main() -> int:
    """Return 1 if an input was answered wrongly."""
    tried, wrong, costs = inputs(), dict[str, str](), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory(prefix="tlt-hostile-") as scratch, targets(Path(scratch)) as running:
        for target in running.values():
            target.rest()
        for place, case in enumerate(tried, start=1):
            if why := wrong_with(running[case.at], case):
                wrong[f"{case.at} {case.name}"] = why
                print(f"WRONG {case.at} {case.name}: {why}")
            if place % FIGURES_EVERY == 0 or place == len(tried):
                costs[case.name] = _figures(running.values())
    figures = {"inputs": len(tried), "wrong": len(wrong), **_last(costs)}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({**figures, "failures": wrong, "after": costs}, indent=1) + "\n")
    print(", ".join(f"{name} {value:g}" for name, value in figures.items()), f"({REPORT})", sep="  ")
    return 1 if wrong else 0


def _figures(running: Iterable[Target]) -> dict[str, float]:
    found = list(running)
    return {
        "peak_mib": round(max(target.peak_mib() for target in found), 1),
        "stall_ms": round(max(target.stall_ms() for target in found), 1),
    }


def _last(costs: Mapping[str, dict[str, float]]) -> dict[str, float]:
    return list(costs.values())[-1]


if __name__ == "__main__":
    sys.exit(main())
