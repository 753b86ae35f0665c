"""Rows of a case: published numbers compared to simulated ones, with a single calibration."""

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tlt_simulator.cases import PublishedCase
from tlt_simulator.report.findings import PublishedRow
from tlt_simulator.report.words import span

FORMAT = "tlt-simulation-rows/1"


def document(case: PublishedCase, found: Sequence[PublishedRow]) -> dict[str, Any]:
    """Return the rows as plain values, for --json."""
    return {
        "format": FORMAT,
        "name": case.name,
        "title": case.title,
        "rows": [asdict(row) | {"error": row.error} for row in found],
        "mean_error": mean_error(found),
        "largest_error": largest_error(found),
        "published": list(case.known),
        "assumed": list(case.assumed),
    }


def table(case: PublishedCase, found: Sequence[PublishedRow]) -> RenderableType:
    """Return the rows for the terminal."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("")
    for heading in ("published", "simulated", "90 % interval", "error"):
        shown.add_column(heading, justify="right")
    for row in found:
        ends = "" if row.interval is None else span(row.interval.low, row.interval.high)
        shown.add_row(row.what, f"{row.published:.2f}", f"{row.simulated:.2f}", ends, f"{row.error:+.1%}")
    covered = f"{sum(row.is_covered for row in found)} of {len(found)} within their intervals"
    errors = f"error: mean {mean_error(found):.1%}, largest {largest_error(found):.1%}; {covered}"
    return Group(
        Text(case.title, style="bold"),
        Padding(shown, (1, 0)),
        Text(errors),
        Padding(Group(*(Text(note, style="dim") for note in case.notes)), (1, 0, 0, 0)),
    )


def mean_error(found: Sequence[PublishedRow]) -> float:
    """Return the mean relative error, without signs."""
    return fmean(abs(row.error) for row in found)


def largest_error(found: Sequence[PublishedRow]) -> float:
    """Return the largest relative error, without its sign."""
    return max(abs(row.error) for row in found)
