"""One step with and without TLT on one time axis: each worker's states until the last response."""

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from countdown.record import Run, Step
from countdown.report.chart import draw
from countdown.report.facts import facts
from countdown.report.palette import INK, SOFT, STATES
from countdown.report.timeline import columns

NAMES: Final = {"on": "with TLT", "off": "without"}
SHOWN: Final = ("rollout", "training", "switching", "resting", "idle")
GAP: Final = 0.7
"""Space between the two sides, in lanes."""


def typical(run: Run) -> Step | None:
    """Return the compared step with the median speedup, or None if no step was compared."""
    compared = sorted((fact for fact in facts(run) if fact.step.is_compared), key=lambda fact: fact.step_speedup or 0.0)
    return compared[len(compared) // 2].step if compared else None


def both_sides(run: Run, step: Step) -> str:
    """Return an inline SVG with the lanes of both sides, in seconds since each rollout began."""
    return draw(
        "both-sides", f"Step {step.index} with and without TLT", height(run), lambda figure: paint(figure, run, step)
    )


def paint(figure: Figure, run: Run, step: Step) -> None:
    """Draw the lanes of both sides, one above the other."""
    axes = figure.subplots()
    workers = sorted({interval.worker for interval in run.intervals})
    at, labels = 0.0, {}
    for rollout in sorted(step.rollouts, key=lambda rollout: list(NAMES).index(rollout.side)):
        span = (rollout.began_unix_s, rollout.began_unix_s + rollout.seconds)
        axes.text(
            0, at - 0.55, f"{NAMES[rollout.side]}: {rollout.seconds:.0f} s", va="bottom", color=INK, fontsize=10.5
        )
        for worker in workers:
            mine = [interval for interval in run.intervals if interval.worker == worker]
            _lane(axes, at, columns(mine, span), span[0])
            labels[at] = worker
            at += 1
        at += GAP
    axes.set_yticks(list(labels), list(labels.values()))
    axes.set_ylim(at - GAP - 0.4, -1.1)
    axes.set_xlim(0, max(rollout.seconds for rollout in step.rollouts))
    axes.set_xlabel("seconds since the prompts were sent")
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    keys = [Patch(facecolor=STATES[state], label=state) for state in SHOWN]
    axes.legend(handles=keys, ncols=len(keys), loc="lower right", bbox_to_anchor=(1, 0.99), labelcolor=SOFT)


def _lane(axes: Axes, at: float, bars: list[tuple[str, float, float]], origin: float) -> None:
    for state, began, ended in bars:
        axes.broken_barh([(began - origin, ended - began)], (at - 0.4, 0.8), facecolor=STATES[state], linewidth=0)


def height(run: Run) -> float:
    """Return the height of the picture, in inches."""
    return 1.3 + 0.7 * len({interval.worker for interval in run.intervals})
