"""
Timelines: one lane per worker, phases of the run above, new drafters marked.

They are documents of the format `tlt-timeline/1`, drawn by the renderer of the coordinator's page, which is inlined.
"""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from countdown.record import Interval, Run, Step
from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline import (
    STATES,
    UNKNOWN,
    LaneRow,
    TimelineDocument,
    TimelineMark,
    Window,
    WorkerTrack,
    document_of,
    head_of,
    lanes,
)

COLUMNS: Final = 3000
"""Per lane; about three per pixel. Bounds the size of the page regardless of how often workers change state."""

EMBED: Final = Path(__file__).with_name("embedded.js")

Span = tuple[float, float]


def whole(run: Run) -> str:
    """Return the run from its first rollout to the end of its last step, in minutes."""
    span = (_span(run.steps[0])[0], _span(run.steps[-1])[1])
    marks = [
        TimelineMark(at_unix_s=swap.at_unix_s, kind="publication", label=f"v{swap.version}")
        for swap in run.swaps
        if span[0] <= swap.at_unix_s <= span[1]
    ]
    document = document_in(run, span, marks)
    description = f"State of {document.workers} workers over {(span[1] - span[0]) / 60:.1f} minutes"
    return canvas("timeline", description, document, {"origin": span[0], "spans": _phases(run)}) + table(document)


def document_in(run: Run, span: Span, marks: Sequence[TimelineMark] = ()) -> TimelineDocument:
    """Return the states of all workers in a span of time."""
    window = Window(from_s=span[0], to_s=span[1], columns=COLUMNS)
    workers = sorted({interval.worker for interval in run.intervals})
    tracks = {worker: track_of(worker, [of for of in run.intervals if of.worker == worker]) for worker in workers}
    head = head_of(window, kind="lanes", workers=len(workers), marks=marks)
    return document_of(head, lanes(workers, tracks.__getitem__, window))


def track_of(worker: str, intervals: Iterable[Interval]) -> WorkerTrack:
    """Return the states of one worker, with gaps where none was noted."""
    times, states = list[float](), list[int]()
    until_s = float("-inf")
    for interval in sorted(intervals, key=lambda of: of.began_unix_s):
        if times and interval.began_unix_s > until_s:
            times.append(until_s)
            states.append(UNKNOWN)
        times.append(interval.began_unix_s)
        states.append(STATES.index(WorkerState(interval.state)))
        until_s = interval.ended_unix_s
    return WorkerTrack(label=worker, devices=1, times_s=times, states=states, until_s=until_s)


def canvas(name: str, description: str, document: TimelineDocument, options: dict[str, JsonValue]) -> str:
    """Return a canvas that `script` draws on, and what it draws."""
    drawn = json.dumps({"timeline": document.model_dump(mode="json"), "options": options}, separators=(",", ":"))
    inline = drawn.replace("<", "\\u003c")  # ends no script, whatever a worker is called
    return (
        f'<canvas class=timeline role=img aria-label="{escape(description)}" data-timeline="{name}-data"></canvas>'
        f'<script type="application/json" id="{name}-data">{inline}</script>'
    )


def swatch(state: str) -> str:
    """Return a swatch of a state, which `script` draws."""
    return f'<canvas class=swatch data-state="{state}"></canvas>'


def table(document: TimelineDocument) -> str:
    """Return the share of each state, for readers who do not see the picture."""
    states = [(number, state) for number, state in enumerate(document.states) if _columns(document, number)]
    rows = "".join(
        f"<tr><th scope=row>{escape(row.label)}</th>"
        + "".join(f"<td>{_share(row.runs, number, document.columns):.0%}</td>" for number, _ in states)
        + "</tr>"
        for row in _lanes(document)
    )
    heads = "".join(f"<th scope=col>{state}</th>" for _, state in states)
    return (
        "<details><summary>Show as a table</summary><div class=wide><table><thead><tr><th scope=col>Share of time</th>"
        f"{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def script() -> str:
    """Return the renderer of the coordinator's page, and what draws with it all timelines of this page."""
    page = files("tlt_coordinator.http") / "page"
    modules = [(page / name).read_text(encoding="utf-8") for name in ("raster.js", "timeline.js")]
    modules.append(EMBED.read_text(encoding="utf-8"))
    joined = "\n".join(re.sub(r"^import .*\n|^export ", "", module, flags=re.MULTILINE) for module in modules)
    return f"<script type=module>\n{joined}</script>"


def _lanes(document: TimelineDocument) -> list[LaneRow]:
    return [row for row in document.rows if isinstance(row, LaneRow)]


def _share(runs: Sequence[tuple[int, int]], number: int, columns: int) -> float:
    return sum(length for state, length in runs if state == number) / columns


def _columns(document: TimelineDocument, number: int) -> bool:
    return any(state == number for row in _lanes(document) for state, _ in row.runs)


def _span(step: Step) -> Span:
    ended = [step.learn_began_unix_s + step.learn_s, *(side.began_unix_s + side.seconds for side in step.rollouts)]
    return min(step.learn_began_unix_s, *(side.began_unix_s for side in step.rollouts)), max(ended)


def _phases(run: Run) -> list[JsonValue]:
    """Rollouts, labelled with their step, and learning. What runs without TLT is faded."""
    spans = list[JsonValue]()
    for step in run.steps:
        phases = [(rollout.side, rollout.began_unix_s, rollout.seconds) for rollout in step.rollouts]
        for phase, began_s, seconds in (*phases, ("learn", step.learn_began_unix_s, step.learn_s)):
            label = "" if phase == "learn" else f"{step.index}"
            spans.append(
                {
                    "from_unix_s": began_s,
                    "to_unix_s": began_s + seconds,
                    "label": label,
                    "shade": phase,
                    "faded": phase == "off",
                }
            )
    return spans
