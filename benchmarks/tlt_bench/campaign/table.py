"""The report for people."""

from rich.console import Console
from rich.table import Table

from tlt_bench.campaign.campaign import Report
from tlt_bench.campaign.figures import SHARED


def show(report: Report, console: Console) -> None:
    """Print figures, aims and findings."""
    table = Table(title=f"campaign, {report.size}, seed {report.seed}: {report.seconds:.0f} s", title_justify="left")
    for name in ("figure", "value", "aim", "meaning"):
        table.add_column(name, justify="right" if name == "value" else "left")
    for name, value in report.figures.items():
        figure = SHARED.get(name)
        if figure is None:
            table.add_row(name, f"{value:g}", "", "")
            continue
        colour = "green" if figure.is_met(value, report.size) else "red" if figure.must_hold else "yellow"
        table.add_row(name, f"[{colour}]{value:g}[/{colour}]", figure.aim(report.size), figure.meaning)
    console.print(table)
    for part, outcome in report.outcomes.items():
        if outcome.skipped:
            console.print(f"{part} skipped: {outcome.skipped}", markup=False)
        for finding in outcome.findings:
            console.print(f"{part}: {finding}", markup=False)
    for part, error in report.errors.items():
        console.print(f"{part} could not run: {error}", markup=False)
    console.print("passed" if report.is_passed else "FAILED", style="bold green" if report.is_passed else "bold red")
