"""Implementation of `tlt simulate`."""

from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_simulator.cases import PublishedCase, case
from tlt_simulator.cli.inputs import Inputs
from tlt_simulator.cli.output import STANDARD_OUTPUT, require_directory, show, write_json
from tlt_simulator.cli.prepared import check, of_case, prepared
from tlt_simulator.cli.progress import phases
from tlt_simulator.cli.simulated import simulated
from tlt_simulator.report import rows
from tlt_simulator.report.document import document
from tlt_simulator.report.findings import PublishedRow
from tlt_simulator.report.page import write_page
from tlt_simulator.report.terminal import table
from tlt_simulator.run import compare
from tlt_simulator.sweep.outcomes import cores


def simulate(
    inputs: Inputs,
    *,
    json_to: str,
    html: Path | None,
    numbers: bool,
    quick: bool,
    sample: int | None,
    processes: int | None,
) -> None:
    """
    Simulate the run that the options describe, and write the results.

    Raises:
        ConfigError: An option is not accepted, or a file cannot be read or written.
    """
    for name, value in (("sample", sample), ("processes", processes)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} is {value}; accepted: at least 1", field=name)
    if html is not None:
        require_directory(html, "--html")
    if json_to and json_to != STANDARD_OUTPUT:
        require_directory(Path(json_to), "--json")
    check(inputs)
    whole = None if inputs.case is None else case(inputs.case)
    if whole is not None and inputs.row is None and len(whole.rows) > 1:
        _all_rows(whole, inputs, json_to, html)
        return
    found = prepared(inputs, whole)
    with phases() as begin:
        findings = simulated(found, begin, quick=quick, sample=sample, processes=processes or cores())
    if html is not None:
        write_page(findings, html)
    if json_to:
        write_json(document(findings), json_to)
    if json_to != STANDARD_OUTPUT:
        show(table(findings, numbers=numbers))
        if html is not None:
            print(f"page: {html}")


def _all_rows(whole: PublishedCase, inputs: Inputs, json_to: str, html: Path | None) -> None:
    """Compare every row of a case with its published number."""
    if html is not None:
        labels = "; ".join(row.label for row in whole.rows)
        raise ConfigError(f"--html is for one row of --case {whole.name}; accepted with --row: {labels}", field="html")
    found = list[PublishedRow]()
    with phases() as begin:
        told = begin(whole.name, len(whole.rows))
        for done, row in enumerate(whole.rows, start=1):
            ready = of_case(inputs, whole, row)
            comparison = compare(ready.trace, ready.scenario)
            found.append(
                PublishedRow(
                    what=f"{row.label} ({row.measure.value})", published=row.published, simulated=row.found(comparison)
                )
            )
            told(done)
    if json_to:
        write_json(rows.document(whole, found), json_to)
    if json_to != STANDARD_OUTPUT:
        show(rows.table(whole, found))
