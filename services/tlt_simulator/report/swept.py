"""Rows of a sweep, for the terminal and as JSON."""

from collections.abc import Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from tlt_simulator.report.provenance import summary
from tlt_simulator.report.words import counted, duration, times
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import product_name
from tlt_simulator.sweep.rows import Mark, SweepRow

FORMAT = "tlt-sweep-rows/1"


def table(scenario: Scenario, rows: Sequence[SweepRow], seeds: int) -> Group:
    """Return the rows, and the recommended settings if one row is the best."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for key in rows[0].changes:
        shown.add_column(key)
    for heading in ("run with TLT", "times as fast", "between seeds", "accept length", "unused time used", ""):
        shown.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in rows:
        shown.add_row(
            *row.changes.values(),
            duration(row.seconds),
            times(row.speedup),
            f"± {row.speedup_spread:.3f}" if seeds > 1 else "",
            f"{row.mean('accept_length'):.2f}",
            f"{row.mean('bubble_utilisation'):.0%}",
            row.mark.value,
        )
    return Group(shown, Text(""), Text(_conclusion(rows, seeds), style="bold"), Text(summary(scenario), style="dim"))


def _conclusion(rows: Sequence[SweepRow], seeds: int) -> str:
    best = next((row for row in rows if row.mark is Mark.BEST), None)
    if best is not None:
        return " ".join(f"--set {product_name(key)}={value}" for key, value in best.changes.items())
    if seeds == 1:
        return "One seed does not tell which is best; give --seeds at least 2."
    equals = sum(row.mark is Mark.AS_GOOD for row in rows)
    return f"None is best: {counted(equals, 'row')} cannot be told apart beyond noise." if equals else "One row."


def document(scenario: Scenario, rows: Sequence[SweepRow], seeds: int) -> dict[str, Any]:
    """Return the rows as plain values."""
    return {
        "format": FORMAT,
        "name": scenario.name,
        "seeds": list(range(scenario.seed, scenario.seed + seeds)),
        "rows": [
            {
                "changes": dict(row.changes),
                "seconds": row.seconds,
                "speedup": row.speedup,
                "speedup_spread": row.speedup_spread,
                "rollout_speedup": [outcome.rollout_speedup for outcome in row.outcomes],
                "durations_s": list(row.durations_s),
                "accept_length": row.mean("accept_length"),
                "bubble_utilisation": row.mean("bubble_utilisation"),
                "mark": row.mark.value,
            }
            for row in rows
        ],
    }
