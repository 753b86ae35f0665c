"""Implementation of `tlt bench campaign`."""

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from tlt_bench.campaign.campaign import Report
from tlt_bench.campaign.campaign import run as run_parts
from tlt_bench.campaign.figures import SHARED
from tlt_bench.campaign.part import Size
from tlt_bench.campaign.parts import chosen
from tlt_common.errors import ConfigError

WIDTH = 150
"""Columns of the table, also in a log."""


def run(*, json: str, size: str, parts: Sequence[str] | None, seed: int, keep: Path | None) -> bool:
    """
    Run the campaign, print its table to stderr and write its result; return whether it passed.

    Raises:
        ConfigError: The size or a part is unknown.
    """
    try:
        wanted = Size(size)
    except ValueError:
        raise ConfigError(f"--size is {size!r}; accepted: {[str(one) for one in Size]}", field="size") from None
    say = partial(typer.echo, err=True)
    report = asyncio.run(run_parts(chosen(parts), size=wanted, seed=seed, keep=keep, say=say))
    _show(report, Console(stderr=True, width=WIDTH, soft_wrap=True))
    report.result().write(json)
    return report.is_passed


def _show(report: Report, console: Console) -> None:
    """Print figures, aims and findings."""
    table = Table(title=f"campaign, {report.size}, seed {report.seed}: {report.seconds:.0f} s", title_justify="left")
    for name in ("figure", "value", "aim", "meaning"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for name, value in report.figures.items():
        figure = SHARED.get(name)
        if figure is None:
            table.add_row(name, f"{value:g}", "", "")
            continue
        color = "green" if figure.is_met(value, report.size) else "red" if figure.must_hold else "yellow"
        table.add_row(name, f"[{color}]{value:g}[/{color}]", figure.aim(report.size), figure.meaning)
    console.print(table)
    for part, outcome in report.outcomes.items():
        if outcome.skipped:
            console.print(f"{part} skipped: {outcome.skipped}", markup=False)
        for finding in outcome.findings:
            console.print(f"{part}: {finding}", markup=False)
    for part, error in report.errors.items():
        console.print(f"{part} could not run: {error}", markup=False)
    console.print("passed" if report.is_passed else "FAILED", style="bold green" if report.is_passed else "bold red")
