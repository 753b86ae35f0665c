"""Timeline charts: one lane per worker, phases of the run above, new drafters below."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countdown.record import Interval, Run, Step
from countdown.report.chart import draw
from countdown.report.palette import LEARN, OFF, ON, SOFT, STATES, SURFACE

COLUMNS: Final = 3000
"""Per lane; about three per pixel. Bounds the size of the page regardless of how often workers change state."""

MINUTE_S: Final = 60.0

Span = tuple[float, float]


def whole(run: Run) -> str:
    """Draw the run from its first rollout to the end of its last step, in minutes."""
    span = (_span(run.steps[0])[0], _span(run.steps[-1])[1])
    return _draw(run, span)


def columns(intervals: Sequence[Interval], span: Span, count: int = COLUMNS) -> list[tuple[str, float, float]]:
    """
    Split `span` into `count` equal columns, assign each the state that fills most of it, and merge equal neighbours.

    Returns:
        (state, began, ended) in order; columns that no interval overlaps are omitted.
    """
    states = sorted({interval.state for interval in intervals})
    edges = np.linspace(span[0], span[1], count + 1)
    filled = np.zeros((len(states) + 1, count))
    filled[-1] = 1e-9  # wins where no state has any time
    for interval in intervals:
        overlap = np.minimum(edges[1:], interval.ended_unix_s) - np.maximum(edges[:-1], interval.began_unix_s)
        filled[states.index(interval.state)] += overlap.clip(min=0.0)
    runs = groupby(enumerate(filled.argmax(axis=0).tolist()), key=lambda pair: pair[1])
    joined = [(winner, [column for column, _ in members]) for winner, members in runs]
    return [
        (states[winner], float(edges[members[0]]), float(edges[members[-1] + 1]))
        for winner, members in joined
        if winner < len(states)
    ]


def _span(step: Step) -> Span:
    ended = [step.learn_began_unix_s + step.learn_s, *(side.began_unix_s + side.seconds for side in step.rollouts)]
    return min(step.learn_began_unix_s, *(side.began_unix_s for side in step.rollouts)), max(ended)


def _draw(run: Run, span: Span) -> str:
    workers = sorted({interval.worker for interval in run.intervals})

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        for lane, worker in enumerate(workers):
            mine = [interval for interval in run.intervals if interval.worker == worker]
            _lane(axes, lane, columns(mine, span), span[0])
        _phases(axes, run, span, lanes=len(workers))
        _swaps(axes, run, span, lane=len(workers))
        axes.set_yticks([-1.1, *range(len(workers)), len(workers) - 0.05], ["phase", *workers, "new drafter"])
        axes.set_ylim(len(workers) + 0.45, -1.75)
        axes.set_xlim(0, (span[1] - span[0]) / MINUTE_S)
        axes.set_xlabel("minutes")
        axes.tick_params(length=0)
        axes.spines["left"].set_visible(False)

    description = f"State of {len(workers)} workers over {(span[1] - span[0]) / MINUTE_S:.1f} minutes"
    return draw("timeline", description, 1.5 + 0.42 * len(workers), paint)


def _lane(axes: Axes, lane: int, bars: list[tuple[str, float, float]], origin: float) -> None:
    for state in dict.fromkeys(state for state, _, _ in bars):
        spans = [
            ((began - origin) / MINUTE_S, (ended - began) / MINUTE_S) for is_, began, ended in bars if is_ == state
        ]
        axes.broken_barh(spans, (lane - 0.4, 0.8), facecolor=STATES.get(state, SOFT), linewidth=0)


def _phases(axes: Axes, run: Run, span: Span, *, lanes: int) -> None:
    for step in run.steps:
        began, ended = _span(step)
        if not span[0] <= (began + ended) / 2 <= span[1]:
            continue
        phases = [(rollout.side, rollout.began_unix_s, rollout.seconds) for rollout in step.rollouts]
        for phase, at, seconds in (*phases, ("learn", step.learn_began_unix_s, step.learn_s)):
            left, width = (at - span[0]) / MINUTE_S, seconds / MINUTE_S
            colour = {"on": ON, "off": OFF}.get(phase, LEARN)
            axes.broken_barh([(left, width)], (-1.28, 0.36), facecolor=colour, edgecolor=SURFACE, linewidth=0.8)
            if phase == "off":
                veil = (left, lanes - 0.55)
                axes.fill_between([left, left + width], -0.45, veil[1], color=SURFACE, alpha=0.62, linewidth=0)
        middle = ((began + ended) / 2 - span[0]) / MINUTE_S
        axes.text(middle, -1.38, f"{step.index}", ha="center", va="bottom", fontsize=8.5, color=SOFT)


def _swaps(axes: Axes, run: Run, span: Span, *, lane: int) -> None:
    labelled = float("-inf")
    for swap in run.swaps:
        if not span[0] <= swap.at_unix_s <= span[1]:
            continue
        at = (swap.at_unix_s - span[0]) / MINUTE_S
        axes.plot(
            [at], [lane - 0.2], marker="^", markersize=5, color=STATES["training"], linestyle="none", clip_on=False
        )
        if at - labelled > 0.03 * (span[1] - span[0]) / MINUTE_S:
            axes.text(at, lane - 0.05, f"v{swap.version}", ha="center", va="top", fontsize=8.5, color=SOFT)
            labelled = at
