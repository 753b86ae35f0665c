"""Tables of the page. Values from traces and scenarios are escaped here."""

from html import escape

from tlt_common.domain.fleet import BUBBLES, WorkerState
from tlt_coordinator.http.embedded import bar, swatch
from tlt_simulator.report.findings import Findings, bubble_use, pairs
from tlt_simulator.report.page.markup import table
from tlt_simulator.report.provenance import MEANINGS, by_source
from tlt_simulator.report.terminal import number_rows
from tlt_simulator.report.words import duration, three_digits, times
from tlt_simulator.result import Comparison, SimulatedRun


def states(comparison: Comparison) -> str:
    """Return GPU time by state, as bars to scale and a table."""
    sides = (("Without TLT", comparison.without), ("With TLT", comparison.with_suite))
    longest = max(run.state_s(*WorkerState) for _, run in sides)
    bars = "".join(_bar(title, run, longest) for title, run in sides)
    seen = [state for state in WorkerState if any(run.state_s(state) for _, run in sides)]
    rows = [(f"{swatch(state.value)}{state.value}", *_cells(comparison, state)) for state in seen]
    bubbles = ("<b>nothing is generated</b>", *_cells(comparison, *BUBBLES))
    heads = ("state", "without, GPU-hours", "share", "with TLT, GPU-hours", "share")
    return bars + table(heads, [*rows, bubbles])


def _bar(title: str, run: SimulatedRun, longest: float) -> str:
    total = run.state_s(*WorkerState)
    parts = [(state.value, run.state_s(state) / total) for state in WorkerState if run.state_s(state)]
    said = ", ".join(f"{state} {share:.0%}" for state, share in parts)
    return (
        f"<h4>{title}: {three_digits(total / 3600)} GPU-hours</h4>"
        f'<div style="width:{total / longest:.2%}">{bar(f"{title}: {said}", parts)}</div>'
    )


def _cells(comparison: Comparison, *of: str) -> list[str]:
    cells = []
    for run in (comparison.without, comparison.with_suite):
        spent_s, total_s = run.state_s(*of), run.state_s(*WorkerState)
        cells += [three_digits(spent_s / 3600), f"{spent_s / total_s:.1%}" if total_s else ""]
    return cells


def steps(comparison: Comparison) -> str:
    """Return one row per step."""
    heads = (
        "step", "without", "with TLT", "times as fast", "rollout without", "with", "tail without", "with",
        "accept length", "drafter", "unused time that trained",
    )  # fmt: skip
    rows = (
        (
            str(pair.with_suite.number),
            duration(pair.without.seconds),
            duration(pair.with_suite.seconds),
            times(pair.speedup),
            duration(pair.without.rollout_s),
            duration(pair.with_suite.rollout_s),
            duration(pair.without.tail_s),
            duration(pair.with_suite.tail_s),
            f"{pair.with_suite.accept_length:.2f}",
            f"v{pair.with_suite.drafter}" if pair.with_suite.drafter else "none",
            f"{bubble_use(pair.with_suite):.0%}",
        )
        for pair in pairs(comparison)
    )
    return table(heads, rows)


def numbers(findings: Findings) -> str:
    """Return a table of all numbers of the simulation with their sources."""
    heads = ("number", "value", "90 % interval", "source", "of")
    rows = ([f"<code>{escape(name)}</code>", *map(escape, rest)] for name, *rest in number_rows(findings))
    return table(heads, rows, text=("source", "of"))


def sources(findings: Findings) -> str:
    """Return the number of figures by source."""
    found = by_source(findings.comparison.scenario).items()
    meanings = {source: "" if MEANINGS[source] == source.value else f": {MEANINGS[source]}" for source, _ in found}
    items = (f"<li><b>{len(named)} {source.value}</b>{meanings[source]}</li>" for source, named in found)
    return f"<ul>{''.join(items)}</ul>"


def checks(findings: Findings) -> str:
    """Return known values compared to simulated ones; empty if there are none."""
    rows = [
        (escape(row.what), f"{row.published:.2f}", f"{row.simulated:.2f}", f"{row.error:+.1%}")
        for row in findings.published
    ]
    for side, measured in findings.measured_sides:
        what = f"rollouts of the trace {side} TLT, {measured.steps} steps"
        both = duration(measured.rollout_s), duration(measured.simulated_s)
        rows.append((what, *both, f"{measured.error:+.1%}"))
    return table(("checked against", "known", "simulated", "error"), rows) if rows else ""


def tried(findings: Findings) -> str:
    """Return the values tried for each key."""
    if not findings.what_to_set:
        return ""
    rows = (
        (
            f"<code>{escape(one.key)}={escape(one.value)}</code>",
            f"{one.gain:+.1%}",
            "yes" if one.is_beyond_noise else "no",
        )
        for one in findings.what_to_set.tried
    )
    return table(("value", "shorter by", "beyond noise"), rows)
