"""The page: headline, recommendations, charts, timelines, and the sources of all numbers."""

from html import escape
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_common.whole_file import write_whole
from tlt_coordinator.http.embedded import colours, script
from tlt_simulator.costs.uncertainty import Range
from tlt_simulator.report.findings import Findings, accept_lengths, bubble_use, pairs, typical, worst
from tlt_simulator.report.page import tables
from tlt_simulator.report.page.lines import ChartLine, lines
from tlt_simulator.report.page.markup import behind, dot, figure, keys, section
from tlt_simulator.report.page.timelines import both_sides
from tlt_simulator.report.page.tornado import tornado
from tlt_simulator.report.provenance import summary
from tlt_simulator.report.words import counted, duration, in_one_unit, span, three_digits, times

STYLE = Path(__file__).with_name("style.css")


def write_page(findings: Findings, path: Path) -> None:
    """
    Write the page to a file.

    Raises:
        ConfigError: The file cannot be written.
    """
    try:
        write_whole(path, page(findings).encode())
    except OSError as error:
        raise ConfigError(f"--html {path}: {error.strerror}", field="html") from error


def page(findings: Findings) -> str:
    """Return the page. It contains no timestamp, so that the same options give the same page."""
    name = escape(findings.comparison.scenario.name)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>tlt simulate: {name}</title><style>{colours()}{STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><main><header>{_header(findings)}</header>{''.join(_sections(findings))}</main>{script()}</body></html>\n"
    )


def _header(findings: Findings) -> str:
    comparison = findings.comparison
    scenario, fleet = comparison.scenario, comparison.scenario.fleet
    without, suite = comparison.without, comparison.with_suite
    gpus = f"{counted(fleet.devices, 'GPU')} in {counted(fleet.workers, 'worker')}"
    return (
        f"<p class=eyebrow>tlt simulate &middot; {escape(scenario.name)} &middot; {escape(comparison.source)}</p>"
        f"<h1>{duration(suite.seconds)} with TLT instead of {duration(without.seconds)}: "
        f"{comparison.speedup:.2f} times as fast</h1>{_cards(findings)}"
        f"<p class=lead>{counted(len(suite.steps), 'step')} with {counted(findings.responses, 'response')}, on {gpus} "
        f"({escape(scenario.costs.device)}, {escape(scenario.costs.model)}), simulated in virtual time with the parts "
        "of the suite that decide what is lent, drafted and published. "
        f"<b>Nothing on this page was run on these GPUs.</b> {summary(scenario)}</p>"
    )


def _cards(findings: Findings) -> str:
    comparison, shown = findings.comparison, findings.interval
    without, suite = comparison.without, comparison.with_suite
    hours = [run.seconds * comparison.scenario.fleet.devices / 3600 for run in (without, suite)]
    first, last = accept_lengths(suite.steps)
    ratio = "without &divide; with TLT"
    whole, rollouts = (_interval(shown.speedup), _interval(shown.rollout_speedup)) if shown else (ratio, ratio)
    cards = (
        ("Whole run", times(comparison.speedup), whole),
        ("Rollouts", times(comparison.rollout_speedup), rollouts),
        ("GPU-hours", three_digits(hours[1]), f"instead of {three_digits(hours[0])}"),
        ("Accept length", f"{first:.2f} &rarr; {last:.2f}", "tokens per round, first to last tenth of the steps"),
    )
    return "<div class=cards>" + "".join(
        f"<div class=card><h2>{name}</h2><p class=number>{number}</p><p>{of}</p></div>" for name, number, of in cards
    ) + "</div>"  # fmt: skip


def _interval(found: Range) -> str:
    return f"90&nbsp;% interval {span(found.low, found.high)}"


def _sections(findings: Findings) -> list[str]:
    parts = [
        ("Incomplete", _incomplete(findings)),
        ("What to set", _what_to_set(findings)),
        ("Step time", _step_time(findings)),
        ("Where the time goes", tables.states(findings.comparison)),
        ("A median step, and the one that gains least", _timelines(findings)),
        ("Unused time that trained drafters", _bubbles(findings)),
        ("Accept length", _accept_length(findings)),
        ("Uncertainty", _sure(findings)),
        ("Checked against", tables.checks(findings)),
        ("Where the numbers come from", tables.sources(findings) + tables.numbers(findings)),
        ("Notes", _notes(findings)),
    ]
    return [section(title, body) for title, body in parts if body]


def _incomplete(findings: Findings) -> str:
    return f"<p>Interrupted before {', '.join(findings.missing)}.</p>" if findings.missing else ""


def _what_to_set(findings: Findings) -> str:
    found = findings.what_to_set
    if found is None:
        return ""
    values, on = counted(len(found.tried), "value"), f"on {found.steps}, with {counted(found.seeds, 'seed')} each"
    behind_it = behind(tables.tried(findings), "Show what was tried")
    if not found.chosen:
        said = f"Nothing: none of {values} tried is better than what is set, beyond noise ({escape(on)})."
        return f"<p>{said}</p>{behind_it}"
    lines_ = escape("\n".join(found.lines))
    return (
        f"<p>With these options of <code>tlt up</code>, the run is {found.gain:.1%} shorter ({values} tried, one key "
        f"at a time, {escape(on)}).</p><pre class=copy tabindex=0>{lines_}</pre>{behind_it}"
    )


_SIDES = keys((dot("without"), "without TLT"), (dot("with"), "with TLT"))


def _step_time(findings: Findings) -> str:
    both = pairs(findings.comparison)
    sides = [
        ChartLine(kind="without", name="without TLT", values=[pair.without.seconds for pair in both]),
        ChartLine(kind="with", name="with TLT", values=[pair.with_suite.seconds for pair in both]),
    ]
    speedups = sorted(pair.speedup for pair in both)
    caption = (
        f"Duration of each step, learning and update included. With TLT, steps are {times(speedups[0])} to "
        f"{times(speedups[-1])} as fast, {times(speedups[len(speedups) // 2])} in the median."
    )
    text = in_one_unit(max(sides[0].values))
    chart = lines("Duration of each step, without TLT and with it", sides, text=text)
    return figure(_SIDES + chart, caption) + behind(tables.steps(findings.comparison))


def _timelines(findings: Findings) -> str:
    comparison = findings.comparison
    both, middle, least = pairs(comparison), typical(comparison), worst(comparison)
    said = (
        (middle, "typical", "has the median speedup"),
        (least, "worst", "gains least"),
    )
    shown = [
        f"<h3>Step {both[place].with_suite.number} {what}: {times(both[place].speedup)}</h3>"
        + both_sides(comparison, place, name)
        for place, name, what in (said if middle != least else said[:1])
    ]
    caption = (
        "Each row is a worker, or the shares of several. Time counts from the beginning of the step; triangles are new "
        "drafters."
    )
    return figure("".join(shown), caption)


def _bubbles(findings: Findings) -> str:
    steps = findings.comparison.with_suite.steps
    used = ChartLine(kind="with", name="used", values=[100 * bubble_use(step) for step in steps])
    chart = lines(
        "Share of unused GPU time that trained drafters, by step", [used], text=lambda value: f"{value:.0f} %"
    )
    share = findings.comparison.with_suite.bubble_utilisation
    caption = (
        "Share of the time in which workers generate nothing that was used to train drafters, by step; "
        f"{share:.0%} over the run. Time in which the RL trainer has the GPUs does not count."
    )
    return figure(chart, caption)


def _accept_length(findings: Findings) -> str:
    steps = findings.comparison.with_suite.steps
    line = ChartLine(kind="with", name="accept length", values=[step.accept_length for step in steps])
    chart = lines("Accept length by step", [line], text=lambda value: f"{value:.1f}", least=1.0)
    drafters = counted(len(findings.comparison.with_suite.publications), "drafter")
    caption = f"Tokens per request and round, by step; 1 is decoding without speculation. {drafters} were published."
    return figure(chart, caption)


def _sure(findings: Findings) -> str:
    parts = []
    if found := findings.interval:
        varied = ", ".join(f"{count} {source}" for source, count in found.varied.items())
        parts.append(
            f"<p>If all numbers with an interval vary together ({varied}; independently of each other, {found.draws} "
            f"draws of a Latin hypercube, simulated on {escape(found.steps)}), the whole run is "
            f"{span(found.speedup.low, found.speedup.high)} times as fast, and takes {duration(found.seconds.low)} to "
            f"{duration(found.seconds.high)} with TLT; rollouts are "
            f"{span(found.rollout_speedup.low, found.rollout_speedup.high)} times as fast (90 % intervals).</p>"
        )
    if findings.sensitivity:
        parts.append(tornado(findings.sensitivity))
    return "".join(parts)


def _notes(findings: Findings) -> str:
    return (
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in findings.all_notes) + "</ul>"
        if findings.all_notes
        else ""
    )
