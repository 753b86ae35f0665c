"""
Timelines: one lane per worker, phases of the run above, new drafters marked.

They are documents of the format `tlt-timeline/1`, drawn by the renderer of the coordinator's page.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import JsonValue

from countdown.record import Interval, Run, Step
from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline import (
    STATES,
    UNKNOWN,
    TimelineDocument,
    TimelineMark,
    Window,
    WorkerTrack,
    document_of,
    head_of,
    lanes,
)
from tlt_coordinator.http.embedded import canvas, table

COLUMNS: Final = 3000
"""Per lane; about three per pixel. Bounds the size of the page regardless of how often workers change state."""

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


def _span(step: Step) -> Span:
    ended = [step.learn_began_unix_s + step.learn_s, *(side.began_unix_s + side.seconds for side in step.rollouts)]
    return min(step.learn_began_unix_s, *(side.began_unix_s for side in step.rollouts)), max(ended)


def _phases(run: Run) -> list[JsonValue]:
    """Rollouts, labeled with their step, and learning. What runs without TLT is faded."""
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
