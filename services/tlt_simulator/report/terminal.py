"""The report of a simulation on the terminal."""

from collections.abc import Iterator
from statistics import fmean, median

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tlt_common.domain.fleet import WorkerState
from tlt_simulator.costs.uncertainty import Range
from tlt_simulator.report.findings import Findings, accept_lengths, pairs
from tlt_simulator.report.interval import ResultInterval
from tlt_simulator.report.provenance import MEANINGS, by_source, named_figures
from tlt_simulator.report.sensitivity import Sensitivity
from tlt_simulator.report.what_to_set import WhatToSet
from tlt_simulator.report.words import counted, duration, figure_text, span, three_digits, times
from tlt_simulator.result import Comparison, SimulatedRun

SWINGS = 8
"""Shown of the sensitivity; the JSON and the page have all."""
BAR = 20
"""Characters of the longest bar."""


def table(findings: Findings, *, numbers: bool = False) -> Group:
    """
    Return the part of the terminal report that is known when both sides have been simulated.

    Args:
        findings: Content of the report.
        numbers: Whether to list every number that the simulation uses.
    """
    parts: list[RenderableType] = [Text(_headline(findings), style="bold"), _padded(_comparison(findings))]
    parts += [_padded(_states(findings.comparison))]
    if findings.measured_sides or findings.published:
        parts.append(_padded(_checks(findings)))
    parts.append(_padded(_numbers(findings) if numbers else _sources(findings)))
    if findings.all_notes:
        parts.append(_padded(Group(*(Text(f"note: {note}", style="yellow") for note in findings.all_notes))))
    return Group(*parts)


def analysis(
    without_ngrams: Comparison | None = None,
    interval: ResultInterval | None = None,
    sensitivity: Sensitivity | None = None,
    what_to_set: WhatToSet | None = None,
) -> Group:
    """Return what further simulations have told, as far as it is known."""
    parts = list[RenderableType]()
    if without_ngrams:
        parts.append(_padded(_without_ngrams(without_ngrams)))
    if interval:
        parts.append(_padded(_interval(interval)))
    if sensitivity:
        parts.append(_padded(_tornado(sensitivity)))
    if what_to_set:
        parts.append(_padded(_settings(what_to_set)))
    return Group(*parts)


def _headline(findings: Findings) -> str:
    comparison, fleet = findings.comparison, findings.comparison.scenario.fleet
    costs = comparison.scenario.costs
    return (
        f"{comparison.scenario.name}: {counted(len(comparison.with_suite.steps), 'step')}, "
        f"{counted(findings.responses, 'response')}, {counted(fleet.workers, 'worker')} of "
        f"{counted(fleet.gpus, 'GPU')} ({costs.device}, {costs.model})"
    )


def _padded(part: RenderableType) -> Padding:
    return Padding(part, (1, 0, 0, 0))


def _plain_table(*headings: str, left: int = 1) -> Table:
    found = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for place, heading in enumerate(headings):
        found.add_column(heading, justify="left" if place < left else "right", no_wrap=True, overflow="fold")
    return found


def _comparison(findings: Findings) -> Table:
    comparison = findings.comparison
    without, suite = comparison.without, comparison.with_suite
    speedups = sorted(pair.speedup for pair in pairs(comparison))
    spread = "" if comparison.scenario.trainer.is_asynchronous else f"{speedups[0]:.2f} to {speedups[-1]:.2f} per step"
    found = _plain_table("", "without TLT", "with TLT", "times as fast", "")
    found.add_row("whole run", *_both(without.seconds, suite.seconds), "")
    is_asynchronous = comparison.scenario.trainer.is_asynchronous
    waited = "trainer waits for rollouts" if is_asynchronous else "rollouts"
    found.add_row(waited, *_both(without.waited_s, suite.waited_s), "")
    for name, of in _OF_STEPS[is_asynchronous]:
        # Steps of an asynchronous trainer come in bursts, whose median says little.
        middle = fmean if is_asynchronous else median
        ours, theirs = (middle([float(getattr(step, of)) for step in run.steps]) for run in (suite, without))
        found.add_row(name, *_both(theirs, ours), "" if of != "seconds" else spread)
    rates = (f"{run.tokens_s:,.0f}" for run in (without, suite))
    found.add_row("tokens per second", *rates, times(suite.tokens_s / without.tokens_s) if without.tokens_s else "", "")
    if is_asynchronous:
        ages = (f"{run.staleness:.2f}, at most {run.max_staleness}" for run in (without, suite))
        found.add_row("staleness of a token, in updates", *ages, "", "")
    devices = comparison.scenario.fleet.devices
    found.add_row("GPU-hours", *(three_digits(run.seconds * devices / 3600) for run in (without, suite)), "", "")
    found.add_row("accept length", *(_accept_length(run) for run in (without, suite)), "", "")
    used = (f"{run.bubble_utilisation:.0%}" for run in (without, suite))
    found.add_row("unused time that trained drafters", *used, "", "")
    return found


_OF_STEPS = {
    False: (("step, median", "seconds"), ("rollout, median", "rollout_s"), ("its tail, median", "tail_s")),
    True: (("step, mean", "seconds"), ("its rollouts, mean", "rollout_s")),
}
"""Durations of a step, of synchronous and of asynchronous trainers."""


def _both(without: float, suite: float) -> tuple[str, str, str]:
    return duration(without), duration(suite), times(without / suite) if suite else ""


def _without_ngrams(found: Comparison) -> Text:
    seconds = duration(found.with_suite.seconds)
    return Text(f"Without n-grams, the whole run takes {seconds} with TLT and is {times(found.speedup)} as fast.")


def _interval(found: ResultInterval) -> Group:
    shown = _plain_table("90 % interval", "times as fast", "with TLT")
    shown.add_row("whole run", _span(found.speedup), _lasting(found.seconds))
    shown.add_row("rollouts", _span(found.rollout_speedup), "")
    return Group(
        shown, Text(f"{counted(found.draws, 'draw')} of all uncertain numbers, on {found.steps}.", style="dim")
    )


def _span(found: Range) -> str:
    return span(found.low, found.high)


def _lasting(found: Range) -> str:
    return f"{duration(found.low)} to {duration(found.high)}"


def _accept_length(run: SimulatedRun) -> str:
    first, last = accept_lengths(run.steps)
    return f"{first:.2f}" if f"{first:.2f}" == f"{last:.2f}" else f"{first:.2f} to {last:.2f}"


def _states(comparison: Comparison) -> Table:
    """Return device-hours by state and their share."""
    found = _plain_table("GPU time", "without TLT", "", "with TLT", "")
    totals = [run.state_s(*WorkerState) for run in (comparison.without, comparison.with_suite)]
    for state in WorkerState:
        spent = [run.state_s(state) for run in (comparison.without, comparison.with_suite)]
        if any(spent):
            cells = ((duration(own), f"{own / of:.0%}" if of else "") for own, of in zip(spent, totals, strict=True))
            found.add_row(state.value, *(text for cell in cells for text in cell))
    return found


def _checks(findings: Findings) -> Table:
    found = _plain_table("checked against", "known", "simulated", "error")
    for side, measured in findings.measured_sides:
        what = f"rollouts of the trace, {counted(measured.steps, 'step')}, {side} TLT"
        both = duration(measured.rollout_s), duration(measured.simulated_s)
        found.add_row(what, *both, f"{measured.error:+.1%}")
    for row in findings.published:
        found.add_row(row.what, f"{row.published:.2f}", f"{row.simulated:.2f}", f"{row.error:+.1%}")
    return found


def _tornado(found: Sensitivity) -> Group:
    shown = found.swings[:SWINGS]
    table_ = _plain_table("what the speedup depends on most, one at a time", "lower", "higher", "speedup")
    table_.add_column(no_wrap=True)
    widest = max((swing.width for swing in shown), default=0.0)
    for swing in shown:
        both = f"{swing.at_low.speedup:.2f} … {swing.at_high.speedup:.2f}"
        bar = "█" * round(BAR * swing.width / widest) if widest else ""
        table_.add_row(Text(swing.what, overflow="ellipsis"), swing.low, swing.high, both, bar)
    left_out = len(found.swings) - len(shown)
    more = f"; {left_out} with less effect are in --json and --html" if left_out > 0 else ""
    said = f"Simulated on {found.steps}, where the speedup is {times(found.base.speedup)}{more}."
    return Group(table_, Text(said, style="dim"))


def _settings(found: WhatToSet) -> Group:
    on = f"on {found.steps}, with {counted(found.seeds, 'seed')} each"
    values = counted(len(found.tried), "value")
    if not found.chosen:
        return Group(Text(f"What to set: nothing. None of {values} tried is better than what is set ({on})."))
    head = Text(f"What to set, for runs {found.gain:.1%} shorter ({values} tried {on}):")
    return Group(head, *(Text(f"  {line}", style="bold") for line in found.lines))


def _sources(findings: Findings) -> Table:
    found = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", show_header=False)
    for source, named in by_source(findings.comparison.scenario).items():
        meaning = MEANINGS[source]
        names = ", ".join(one.name.removeprefix("costs.") for one in named)
        head = source.value if meaning == source.value else f"{source.value}: {meaning}"
        found.add_row(f"{len(named)} {head}", Text(names, style="dim"))
    return found


def _numbers(findings: Findings) -> Table:
    found = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("number", "value", "90 % interval", "source", "of"):
        found.add_column(heading, justify="right" if heading in {"value", "90 % interval"} else "left")
    for cells in number_rows(findings):
        found.add_row(*cells)
    return found


def number_rows(findings: Findings) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield a row for every number of a simulation: its name, value, interval, source and basis."""
    for named in named_figures(findings.comparison.scenario):
        figure = named.figure
        ends = " to ".join(figure_text(named.name, end) for end in (figure.least, figure.most))
        shown = ends if named.has_interval else ""
        yield named.name, figure_text(named.name, figure.value), shown, figure.source.value, figure.of
