"""Timelines of a simulated step on both sides, drawn as on the coordinator's page."""

from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline import (
    STATES,
    TimelineDocument,
    TimelineMark,
    Window,
    WorkerTrack,
    bands,
    document_of,
    head_of,
    lanes,
)
from tlt_coordinator.http.embedded import canvas, swatch, table
from tlt_simulator.report.page.markup import keys
from tlt_simulator.report.words import counted, duration
from tlt_simulator.result import Comparison, SimulatedRun

COLUMNS = 1200
"""Per row. Bounds the size of the page, however often workers change their state."""
MAX_LANES = 16
"""Maximum number of workers shown in separate rows."""
BANDS = 12
"""Rows of larger fleets."""


def both_sides(comparison: Comparison, place: int, name: str) -> str:
    """
    Return the timelines of a step with and without the suite, on a common time axis.

    Args:
        comparison: Both runs.
        place: Index of the step.
        name: Unique name within the page.
    """
    sides = (("Without TLT", "without", comparison.without), ("With TLT", "with", comparison.with_suite))
    longest_s = max(run.steps[place].seconds for _, _, run in sides)
    parts = []
    for title, kind, run in sides:
        step = run.steps[place]
        document = document_in(run, place, comparison.scenario.fleet.gpus)
        waited = "the trainer waits for rollouts"
        said = f"{title}: {duration(step.seconds)}, of which {waited} for {duration(step.waited_s)}"
        described = f"Step {step.number}, {said}; states of {counted(document.workers, 'worker')}"
        options = {"origin": document.from_unix_s, "to": document.from_unix_s + longest_s}
        parts.append(f"<h4>{said}</h4>{canvas(f'{name}-{kind}', described, document, options)}{table(document)}")
    seen = {turn.state for run in (comparison.without, comparison.with_suite) for turn in run.turns[place]}
    shown = [(swatch(state.value), state.value) for state in WorkerState if state.value in seen]
    return "".join(parts) + keys(*shown)


def document_in(run: SimulatedRun, place: int, devices: int) -> TimelineDocument:
    """
    Return the states of all workers in a step: a lane each, or bands in a large fleet. Seconds count from the run's
    start.
    """
    step, turns = run.steps[place], run.turns[place]
    began_s = turns[0].at_s
    ended_s = began_s + step.seconds
    changes: dict[int, list[tuple[float, int]]] = {}
    for turn in turns:
        changes.setdefault(turn.worker, []).append((turn.at_s, STATES.index(WorkerState(turn.state))))
    tracks = {
        f"worker {worker}": WorkerTrack(
            label=f"worker {worker}",
            devices=devices,
            times_s=[at_s for at_s, _ in found],
            states=[state for _, state in found],
            until_s=ended_s,
        )
        for worker, found in sorted(changes.items())
    }
    names, window = list(tracks), Window(from_s=began_s, to_s=ended_s, columns=COLUMNS)
    marks = [
        TimelineMark(at_unix_s=at_s, kind="publication", label=str(version))
        for at_s, version, _ in run.publications
        if began_s <= at_s <= ended_s
    ]
    if len(names) <= MAX_LANES:
        head = head_of(window, kind="lanes", workers=len(names), marks=marks)
        return document_of(head, lanes(names, tracks.__getitem__, window))
    head = head_of(window, kind="bands", workers=len(names), marks=marks)
    return document_of(head, bands(names, tracks.__getitem__, window, BANDS))
