"""Implementation of `tlt simulate`: prepares the run, simulates both sides, analyzes the result and reports it."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from tlt_common.errors import ConfigError
from tlt_simulator.cases import PublishedCase
from tlt_simulator.cli.inputs import Inputs, check
from tlt_simulator.cli.output import STANDARD_OUTPUT, require_directory, show, write_json
from tlt_simulator.cli.prepared import PreparedRun, open_rows, prepared
from tlt_simulator.cli.progress import Phases, phases
from tlt_simulator.fit.extrapolation import extrapolations
from tlt_simulator.report import interval, rows, sensitivity, what_to_set
from tlt_simulator.report.document import document
from tlt_simulator.report.findings import Findings, PublishedRow, measured_time
from tlt_simulator.report.page import write_page
from tlt_simulator.report.sample import sample_size, sampled
from tlt_simulator.report.terminal import analysis, table
from tlt_simulator.result import Comparison
from tlt_simulator.run import compare
from tlt_simulator.run import simulate as simulate_run
from tlt_simulator.sweep.outcomes import cores

QUICK_STEPS, QUICK_DRAWS = 2, 12
"""Steps and draws from which a quick simulation estimates its interval."""
ANALYSIS = ("without n-grams", "interval", "sensitivity", "what to set")
"""What is simulated after the table is shown, in order."""
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, as shells have it."""


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

    The table is shown as soon as both sides have been simulated. Ctrl-C during the analysis that follows keeps what is
    known; JSON and page name what is missing, and the exit code is 130.

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
    labels = open_rows(inputs)
    if labels and html is not None:
        accepted = "; ".join(labels)
        raise ConfigError(
            f"--html is for one row of --case {inputs.case}; accepted with --row: {accepted}", field="html"
        )
    runs = prepared(inputs)
    if runs[0].case is not None and labels:
        _all_rows(runs[0].case, runs, json_to, processes or cores())
        return
    is_shown = json_to != STANDARD_OUTPUT
    with phases() as begin:
        findings = _simulated(runs[0], begin)
    if is_shown:
        show(table(findings, numbers=numbers))
    findings = _analyzed(
        findings, runs[0], quick=quick, sample=sample, processes=processes or cores(), is_shown=is_shown
    )
    if html is not None:
        write_page(findings, html)
    if json_to:
        write_json(document(findings), json_to)
    if html is not None and is_shown:
        print(f"page: {html}")
    if findings.missing:
        print(f"interrupted before {', '.join(findings.missing)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)


def _simulated(run: PreparedRun, begin: Phases) -> Findings:
    """Simulate both sides."""
    scenario, trace = run.scenario, run.trace
    comparison = compare(trace, scenario, progress=begin("run", len(trace.steps)))
    unplaced = () if scenario.memory is None else scenario.memory.warnings
    timed = () if scenario.trainer.is_asynchronous else trace.steps  # logs have the times of synchronous steps
    return Findings(
        comparison=comparison,
        responses=trace.responses,
        measured=measured_time([step.rollout_s for step in timed], comparison.without),
        measured_with=measured_time([step.suite_rollout_s for step in timed], comparison.with_suite),
        published=() if run.row is None else (PublishedRow.of(run.row, comparison),),
        notes=(*unplaced, *run.notes, *(f"extrapolated: {what}" for what in extrapolations(scenario, trace))),
    )


def _analyzed(
    findings: Findings, run: PreparedRun, *, quick: bool, sample: int | None, processes: int, is_shown: bool
) -> Findings:
    """Return the findings with their analysis, and show each part as soon as it is known. An interruption ends it."""
    missing = ["without n-grams", "interval"] if quick else list(ANALYSIS)
    try:
        for found in _parts(findings.comparison, run, quick=quick, sample=sample, processes=processes):
            findings = replace(findings, **found)
            del missing[0]
            if is_shown:
                show(analysis(**found))
    except KeyboardInterrupt:
        return replace(findings, missing=tuple(missing))
    return findings


def _parts(
    comparison: Comparison, run: PreparedRun, *, quick: bool, sample: int | None, processes: int
) -> Iterator[dict[str, Any]]:
    """Simulate the run without n-grams, and variants on a sample of its steps; yield each result by its field."""
    scenario, trace = run.scenario, run.trace
    with phases() as begin:
        told = begin("without n-grams", len(trace.steps))
        alone = simulate_run(trace.steps, scenario.without_ngrams, progress=told)
    yield {"without_ngrams": replace(comparison, with_suite=alone)}
    varied, tried = sensitivity.count(scenario, trace.cap), what_to_set.count()
    draws = QUICK_DRAWS if quick else interval.DRAWS
    size = QUICK_STEPS if quick else sample or sample_size(comparison, varied + draws + tried)
    steps = sampled(trace, size)
    with phases() as begin:
        told = begin("interval", draws + interval.REPEATS)
        uncertain = interval.interval(comparison, trace, steps, processes=processes, draws=draws, progress=told)
    yield {"interval": uncertain}
    if quick:
        return
    with phases() as begin:
        told = begin("sensitivity", varied)
        swings = sensitivity.sensitivity(scenario, trace, steps, processes=processes, progress=told)
    yield {"sensitivity": swings}
    with phases() as begin:
        told = begin("what to set", tried)
        settings = what_to_set.what_to_set(scenario, trace, steps, processes=processes, progress=told)
    yield {"what_to_set": settings}


def _all_rows(whole: PublishedCase, runs: Sequence[PreparedRun], json_to: str, processes: int) -> None:
    """Compare every row of a case with its published number."""
    found = list[PublishedRow]()
    with phases() as begin:
        told = begin(whole.name, len(runs))
        for run in runs:
            assert run.row is not None  # noqa: S101 - runs of a case have one
            comparison = compare(run.trace, run.scenario)
            steps = sampled(run.trace, QUICK_STEPS)
            uncertain = interval.interval(comparison, run.trace, steps, processes=processes, draws=QUICK_DRAWS)
            found.append(PublishedRow.of(run.row, comparison, uncertain))
            told(len(found))
    if json_to:
        write_json(rows.document(whole, found), json_to)
    if json_to != STANDARD_OUTPUT:
        show(rows.table(whole, found))
