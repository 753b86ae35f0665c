"""Simulates both sides and analyzes the result."""

from dataclasses import replace

from tlt_simulator.cli.prepared import PreparedRun
from tlt_simulator.cli.progress import Phases
from tlt_simulator.fit.extrapolation import extrapolations
from tlt_simulator.report import interval, sensitivity, what_to_set
from tlt_simulator.report.findings import Findings, PublishedRow, measured_time
from tlt_simulator.report.sample import sample_size, sampled
from tlt_simulator.run import compare

QUICK_STEPS, QUICK_DRAWS = 2, 12
"""Steps and draws from which a quick simulation estimates its interval."""


def simulated(found: PreparedRun, begin: Phases, *, quick: bool, sample: int | None, processes: int) -> Findings:
    """
    Simulate, estimate the uncertainty, and find what to set.

    Args:
        found: The run to simulate.
        begin: Called with each phase.
        quick: Whether to leave out sensitivity and what to set, and to estimate the uncertainty roughly.
        sample: Number of steps on which variants are simulated; None for as many as are affordable.
        processes: Number of concurrent simulations.
    """
    scenario, trace = found.scenario, found.trace
    notes = (*found.notes, *(f"extrapolated: {what}" for what in extrapolations(scenario, trace)))
    comparison = compare(trace, scenario, ngrams_apart=True, progress=begin("run", len(trace.steps)))
    published = tuple[PublishedRow, ...]()
    if found.row is not None:
        what = f"{found.row.label} ({found.row.measure.value})"
        row = PublishedRow(what=what, published=found.row.published, simulated=found.row.found(comparison))
        published = (row,)
    findings = Findings(
        comparison=comparison,
        responses=trace.responses,
        measured=measured_time(trace, comparison.without),
        published=published,
        notes=notes,
    )
    if quick:
        few = sampled(trace, QUICK_STEPS)
        told = begin("interval", QUICK_DRAWS + 1)
        ends = interval.interval(comparison, trace, few, processes=processes, draws=QUICK_DRAWS, progress=told)
        return replace(findings, interval=ends)
    varied = sensitivity.count(scenario, trace.cap)
    size = sample or sample_size(comparison, varied + interval.DRAWS + what_to_set.count())
    steps = sampled(trace, size)
    return Findings(
        comparison=comparison,
        responses=trace.responses,
        measured=findings.measured,
        published=published,
        notes=notes,
        sensitivity=sensitivity.sensitivity(
            scenario, trace, steps, processes=processes, progress=begin("sensitivity", varied)
        ),
        interval=interval.interval(
            comparison, trace, steps, processes=processes, progress=begin("interval", interval.DRAWS + 1)
        ),
        what_to_set=what_to_set.what_to_set(
            scenario, trace, steps, processes=processes, progress=begin("what to set", what_to_set.count())
        ),
    )
