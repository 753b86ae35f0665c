"""The HTML page: headline, text, plots, tables. One file without external resources."""

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from countdown.figures import Figure, figures
from countdown.record import Run
from countdown.report import both_sides, drafter, samples, speed, tables, timeline, words
from countdown.report.palette import STATES, css
from tlt_coordinator.http.embedded import script, swatch

NAME: Final = "report.html"

STYLE: Final = Path(__file__).with_name("style.css")


def write_report(run: Run, directory: Path) -> Path:
    """
    Write report.html to `directory`, next to run.json, and return its path.

    Raises:
        ValueError: The run has no finished step, so there is nothing to report.
    """
    if not run.steps:
        raise ValueError("the run finished no step; run it again with more time")
    page = directory / NAME
    page.write_text(_page(run), encoding="utf-8")
    return page


def _page(run: Run) -> str:
    began = datetime.fromtimestamp(run.began_unix_s, tz=UTC)
    command = escape(run.subject.command)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{command}, {began:%Y-%m-%d}</title>"
        f"<style>{css()}{STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><main><header><p class=eyebrow>{command} &middot; {began:%Y-%m-%d %H:%M} UTC &middot; "
        f"{escape(run.machine)}</p><h1>{words.title(run)}</h1>{_headline(run)}"
        f"<p class=lead>{words.policy(run)} {words.comparison(run)}</p>"
        f"</header>{''.join(_sections(run))}</main>{script()}</body></html>\n"
    )


def _headline(run: Run) -> str:
    found = figures(run)
    cold, last = found.get("accept_length_cold"), found.get("accept_length_last")
    accept = f"{cold.value:.2f} &rarr; {last.value:.2f}" if cold and last else "&ndash;"
    compared = f"median of {len(run.compared)} steps "
    cards = (
        (
            "Step",
            words.times(found.get("step_speedup")),
            _spread(found.get("step_speedup")),
            f"off &divide; on, {compared}",
        ),
        (
            "Tail",
            words.times(found.get("tail_speedup")),
            _spread(found.get("tail_speedup")),
            f"time to the longest 10 % of responses, {compared}",
        ),
        ("Identical responses", words.share(found.get("identical_responses")), "", "token for token, on and off"),
        ("Accept length", accept, "", "tokens per round, first to last step; 1 without speculation"),
    )
    return "<div class=cards>" + "".join(
        f"<div class=card><h2>{name}</h2><p class=number>{number}</p><p>{of}{spread}</p></div>"
        for name, number, spread, of in cards
    ) + "</div>"  # fmt: skip


def _spread(figure: Figure | None) -> str:
    return f"[{figure.low:.2f}&ndash;{figure.high:.2f}]" if figure else ""


def _sections(run: Run) -> list[str]:
    utilization = figures(run)["bubble_utilisation"]
    return [
        _section("Where the speedup comes from", "".join(f"<p>{paragraph}</p>" for paragraph in words.gains(run))),
        _section(
            "Timeline",
            _figure(timeline.whole(run), f"The whole run. The numbers at the top are steps.{_keys(run)}")
            + _both_sides(run),
        ),
        _section(
            "Rollout and step time",
            _figure(speed.step_times(run), f"{_ratios(run, *SPEEDS)} {RATE} {escape(run.subject.served)}"),
        ),
        _section("Tail", _figure(speed.tails(run), f"{TAIL} {_ratios(run, 'tail')} {escape(run.subject.served)}")),
        _section("Drafter", _figure(drafter.accept_length(run), _accept(run)) + words.fresh(run)),
        _section(
            "Idle worker time",
            _figure(
                drafter.bubbles(run), f"{BUBBLE} Over the run: <b>{utilization.value:.0%}</b> {_range(utilization)}."
            )
            + tables.ledger(run),
        ),
        *_responses(run),
        _section("Training", _figure(samples.training(run), f"{TRAINING} {escape(run.subject.reward)}")),
        _section(
            "All figures",
            f"<p>{escape(run.subject.served)}</p>{tables.all_figures(run)}<h3>Every step</h3>{tables.steps(run)}",
        ),
        _section("Settings, machine, versions", _origin(run)),
        _section("Reproduce", _repeat(run)),
    ]


def _both_sides(run: Run) -> str:
    """Return the step with the median speedup, with and without TLT; empty if no step was compared."""
    if (step := both_sides.typical(run)) is None:
        return ""
    return _figure(
        f"<div class=both-sides>{both_sides.both_sides(run, step)}</div>",
        f"Step {step.index}, which has the median speedup, rolled out on both sides. Gray is idle time; green is the "
        "part of it used to train the drafter. Lending is disabled while the step runs without TLT. The axes count "
        f"seconds since the prompts were sent. {escape(run.subject.served)}",
    )


def _responses(run: Run) -> list[str]:
    """Return the sections on responses: identical ones, or two samples of one distribution if drawn without seeds."""
    if not run.compared:
        return []
    if all(step.pairs for step in run.compared):
        text = f"<p>{words.identical(run)}</p><p>{words.paired_rewards(run)}</p>"
        return [_section("Identical responses", text + _figure(samples.lengths(run), LENGTHS))]
    return [
        _section("Same distribution: lengths", _figure(samples.lengths(run), words.lengths(run))),
        _section("Same distribution: rewards", _figure(samples.rewards(run), words.rewards(run))),
    ]


SPEEDS: Final = ("rollout", "step", "token_rate")
RATE: Final = "The token rate is the number of generated tokens per second of rollout."
LENGTHS: Final = "Response lengths. The lines coincide where both sides generated the same responses."
TAIL: Final = "Mean time to the completion of the longest tenth of the responses, which are the same on both sides."
ACCEPT: Final = (
    "Top: tokens per request and round in each <b class=on>on</b> rollout, including the bonus token, labeled with "
    "the step; 1 is decoding without speculation. Green lines mark drafter swaps. Below: share of held-out positions "
    "at which each drafter's first guess was right."
)
MIX: Final = "Bottom: mean count of numbers per problem."
BUBBLE: Final = (
    "Worker-seconds without a request while lending was enabled (the <b class=on>on</b> rollout and learning), and the "
    "share used to train the drafter."
)
TRAINING: Final = "Error bars: standard error over the step's responses."


def _accept(run: Run) -> str:
    return f"{ACCEPT} {MIX}" if run.has_mix else ACCEPT


def _repeat(run: Run) -> str:
    return (
        f"<p>Run it from a clean clone:</p><pre>{escape(run.subject.make)}</pre>"
        f"<p>Print the figures only, as JSON:</p><pre>{escape(run.subject.bench)}</pre>"
        '<p>Everything on this page is computed from <a href="run.json">run.json</a> in the same directory.</p>'
    )


def _ratios(run: Run, *names: str) -> str:
    found = figures(run)
    parts = [
        f"{name.replace('_', ' ')} {words.times(found[key])} {_range(found[key])}"
        for name in names
        if (key := f"{name}_speedup") in found
    ]
    return f"Off &divide; on: {', '.join(parts)}." if parts else "No step was compared."


def _range(figure: Figure) -> str:
    if figure.high <= 1.0 and figure.low >= 0.0:
        return f"[{figure.low:.0%}&ndash;{figure.high:.0%} per step]"
    return _spread(figure)


def _keys(run: Run) -> str:
    seen = {interval.state for interval in run.intervals}
    marks = [
        *((state, state) for state in STATES if state in seen),
        ("on", "on rollout"),
        ("off", "off rollout"),
        ("learn", "learning"),
    ]
    return "<span class=keys>" + "".join(
        f"<span>{_swatch(variable)}{name}</span>" for variable, name in marks
    ) + "</span>"  # fmt: skip


def _swatch(variable: str) -> str:
    """Return a swatch; of states, one drawn with their pattern."""
    if variable in STATES:
        return swatch(variable)
    return f"<i class=swatch style='background:var(--{variable})'></i>"


def _origin(run: Run) -> str:
    spent = {
        "machine": run.machine,
        "start-up, until the suite accepted requests": f"{run.start_up_s:.0f} s",
        "whole run": f"{(run.ended_unix_s - run.began_unix_s) / 60:.1f} minutes",
    }
    named = "".join(
        f"<h3>{name}</h3>{tables.pairs(values)}"
        for name, values in (("Settings", run.settings), ("Versions", run.versions))
    )
    return tables.pairs(spent) + named


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _figure(svg: str, caption: str) -> str:
    return f"<figure><div class=wide>{svg}</div><figcaption>{caption}</figcaption></figure>"
