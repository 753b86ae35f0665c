"""The page: headline, words, plots, tables, and how to repeat it. One file, no scripts, nothing fetched."""

from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Final

from tlt_lab.demo.figures import Figure, figures
from tlt_lab.demo.record import Run
from tlt_lab.demo.report import drafter, samples, speed, tables, timeline, words
from tlt_lab.demo.report.facts import facts
from tlt_lab.demo.report.palette import STATES, css

NAME: Final = "report.html"

STYLE: Final = Path(__file__).with_name("style.css")

REPEAT: Final = """<p>Run the demo again, from a clean clone, and get this page:</p><pre>make demo</pre>
<p>Only the figures, as JSON on standard output:</p><pre>tlt bench rollout --json -</pre>
<p>Everything this page says was computed from <a href="run.json">run.json</a> beside it.</p>"""


def write_report(run: Run, directory: Path) -> Path:
    """
    Write report.html into `directory`, where run.json is or will be, and return its path.

    Raises:
        ValueError: The run has no finished step, so there is nothing to report.
    """
    if not run.steps:
        raise ValueError("the run finished no step; let it go on for at least one and write the report again")
    page = directory / NAME
    page.write_text(_page(run), encoding="utf-8")
    return page


def _page(run: Run) -> str:
    began = datetime.fromtimestamp(run.began_unix_s, tz=UTC)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>TLT demo, {began:%Y-%m-%d}</title><style>{css()}{STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body><main><header><p class=eyebrow>TLT demo &middot; {began:%Y-%m-%d %H:%M} UTC &middot; "
        f"{escape(run.machine)}</p><h1>{words.title(run)}</h1>{_headline(run)}<p class=lead>{words.comparison(run)}</p>"
        f"</header>{''.join(_sections(run))}</main></body></html>\n"
    )


def _headline(run: Run) -> str:
    found = figures(run)
    cold, last = found.get("accept_length_cold"), found.get("accept_length_last")
    accept = f"{cold.median:.2f} &rarr; {last.median:.2f}" if cold and last else "&ndash;"
    warm = f"median of {sum(not fact.is_cold for fact in facts(run))} steps with a drafter "
    cards = (
        (
            "Step",
            words.times(found.get("step_speedup")),
            _spread(found.get("step_speedup")),
            f"off &divide; on, {warm}",
        ),
        (
            "Tail",
            words.times(found.get("tail_speedup")),
            _spread(found.get("tail_speedup")),
            f"time of the last 10 % of responses, {warm}",
        ),
        ("Accept length", accept, "", "tokens per round, cold to last; plain decoding makes 1"),
    )
    return "<div class=cards>" + "".join(
        f"<div class=card><h2>{name}</h2><p class=number>{number}</p><p>{of}{spread}</p></div>"
        for name, number, spread, of in cards
    ) + "</div>"  # fmt: skip


def _spread(figure: Figure | None) -> str:
    return f"[{figure.least:.2f}&ndash;{figure.most:.2f}]" if figure else ""


def _sections(run: Run) -> list[str]:
    step, lanes = timeline.close_up(run)
    utilisation = figures(run)["bubble_utilisation"]
    return [
        _section("What gain comes from what", "".join(f"<p>{paragraph}</p>" for paragraph in words.gains(run))),
        _section(
            "Who did what when",
            _figure(timeline.whole(run), f"The whole run; the numbers above are steps.{_keys(run)}")
            + _figure(
                lanes,
                f"Step {step}, the one with the median speedup, close up. Grey is the bubble; "
                "green is the part of it that trained the drafter. Off rollouts are veiled: "
                "they exist for comparison only and lend nothing.",
            ),
        ),
        _section(
            "Rollout and step time",
            _figure(speed.step_times(run), f"{_ratios(run, *SPEEDS)} {RATE}"),
        ),
        _section("The tail", _figure(speed.tails(run), f"{TAIL} {_ratios(run, 'tail')}")),
        _section("What the drafter became", _figure(drafter.accept_length(run), ACCEPT)),
        _section(
            "The bubble, and how much of it was used",
            _figure(
                drafter.bubbles(run), f"{BUBBLE} Over the run: <b>{utilisation.median:.0%}</b> {_range(utilisation)}."
            )
            + tables.ledger(run),
        ),
        _section("One distribution: lengths", _figure(samples.lengths(run), words.lengths(run))),
        _section(
            "One distribution: rewards",
            _figure(samples.rewards(run), words.rewards(run)) + f"<div class=note>{words.greedy(run)}</div>",
        ),
        _section("Training", _figure(samples.training(run), TRAINING)),
        _section("All figures", f"{tables.all_figures(run)}<h3>Every step</h3>{tables.steps(run)}"),
        _section("Settings, machine, versions", _origin(run)),
        _section("Repeat it", REPEAT),
    ]


SPEEDS: Final = ("rollout", "step", "token_rate")
RATE: Final = "The token rate is tokens per second of rollout, so luck with lengths weighs less in it."
TAIL: Final = "From the moment 90 % of the responses were there to the last one."
ACCEPT: Final = (
    "Above: tokens per request and round in each <b class=on>on</b> rollout, bonus token included, with the step's "
    "number; 1 is plain decoding. Green lines: a new drafter was swapped in. Middle: how often each drafter's first "
    "guess was right on hidden states it had not trained on. Below: the problems."
)
BUBBLE: Final = (
    "Worker-seconds without a request while lending was on (the <b class=on>on</b> rollout and learning), and the "
    "share that trained the drafter."
)
TRAINING: Final = (
    "Bars: standard error over the step's responses. The reward of a correct answer is 1 minus a small penalty for its "
    "length."
)


def _ratios(run: Run, *names: str) -> str:
    found = figures(run)
    parts = [
        f"{name.replace('_', ' ')} {words.times(found[key])} {_range(found[key])}"
        for name in names
        if (key := f"{name}_speedup") in found
    ]
    return f"Off &divide; on, steps with a drafter: {', '.join(parts)}." if parts else "No step had a drafter."


def _range(figure: Figure) -> str:
    if figure.most <= 1.0 and figure.least >= 0.0:
        return f"[{figure.least:.0%}&ndash;{figure.most:.0%} per step]"
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
        f"<span><i class=swatch style='background:var(--{variable})'></i>{name}</span>" for variable, name in marks
    ) + "</span>"  # fmt: skip


def _origin(run: Run) -> str:
    spent = {
        "machine": run.machine,
        "start-up, until the first request was taken": f"{run.start_up_s:.0f} s",
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
