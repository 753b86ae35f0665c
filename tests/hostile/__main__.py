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


def main() -> int:
    """Return 1 if an input was answered wrongly."""
    tried, wrong, costs = inputs(), dict[str, str](), dict[str, dict[str, float]]()
    with tempfile.TemporaryDirectory(prefix="tlt-hostile-") as scratch, targets(Path(scratch)) as running:
        for target in running.values():
            target.rest()
        for case in tried:
            if why := wrong_with(running.get(case.at), case):
                wrong[f"{case.at} {case.name}"] = why
                print(f"WRONG {case.at} {case.name}: {why}")
            costs[f"{case.at} {case.name}"] = _figures(running.values())
    figures = {"inputs": len(tried), "wrong": len(wrong), **list(costs.values())[-1]}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps({**figures, "failures": wrong, "after": _records(costs)}, indent=1) + "\n")
    print(", ".join(f"{name} {value:g}" for name, value in figures.items()), f"({REPORT})", sep="  ")
    return 1 if wrong else 0


def _figures(running: Iterable[Target]) -> dict[str, float]:
    found = list(running)
    return {
        "peak_mib": round(max(target.peak_mib() for target in found), 1),
        "stall_ms": round(max(target.stall_ms() for target in found), 1),
    }


def _records(costs: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return the figures after those inputs only that raised one."""
    before: dict[str, float] = {}
    found = {}
    for name, figures in costs.items():
        if any(value > before.get(figure, 0.0) for figure, value in figures.items()):
            found[name] = before = figures
    return found


if __name__ == "__main__":
    sys.exit(main())
