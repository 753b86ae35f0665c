"""Charts of both sides' seconds per step, with their ratio below."""

from collections.abc import Callable, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from countdown.record import Run, Side, Step
from countdown.report.chart import draw, plain
from countdown.report.facts import StepFacts, facts
from countdown.report.palette import INK, LEARN, LINE, OFF, ON, SOFT

SIDES: tuple[tuple[Side, str, float], ...] = (("off", OFF, -0.19), ("on", ON, 0.19))


def step_times(run: Run) -> str:
    """Draw rollout and learning times stacked, off next to on; below, the speedups of the rollout and the step."""
    known = facts(run)

    def paint(figure: Figure) -> None:
        seconds, ratio = _panels(figure, known, lambda step, side: step.side(side).seconds)
        for side, _, shift in SIDES:
            for at, fact in _with_side(known, side):
                bottom = fact.step.side(side).seconds
                seconds.bar(at + shift, fact.step.learn_s, 0.36, bottom=bottom, color=LEARN, linewidth=0)
        _key(seconds, Patch(color=LEARN, label="learning (both sides)"))
        _ratios(ratio, [fact.rollout_speedup for fact in known], "rollout", dashed=True)
        _ratios(ratio, [fact.step_speedup for fact in known], "step")

    return draw("steps", "Rollout and step seconds of both sides per step, with their ratio", 4.3, paint)


def tails(run: Run) -> str:
    """Draw the mean seconds until the longest tenth of the responses were complete, and their ratio."""
    known = facts(run)

    def paint(figure: Figure) -> None:
        seconds, ratio = _panels(figure, known, lambda step, side: step.side(side).tail_s)
        _key(seconds)
        _ratios(ratio, [fact.tail_speedup for fact in known], "tail")

    return draw("tails", "Tail seconds of both sides per step, with their ratio", 3.7, paint)


def cold_band(axes: Axes, known: Sequence[StepFacts], *, label: bool = False) -> None:
    """Shade the steps that began without a drafter. Steps are at x = 0, 1, 2 ..."""
    cold = [at for at, fact in enumerate(known) if fact.is_cold]
    if cold:
        axes.axvspan(min(cold) - 0.5, max(cold) + 0.5, color=LINE, alpha=0.55, linewidth=0, zorder=0)
        if label:
            axes.annotate(
                "no drafter yet",
                (min(cold) - 0.45, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                fontsize=8.5,
                color=SOFT,
            )


def name_steps(axes: Axes, known: Sequence[StepFacts]) -> None:
    """Label the steps on the x axis with their indices."""
    axes.set_xticks(range(len(known)), [str(fact.step.index) for fact in known])
    axes.set_xlim(-0.6, len(known) - 0.4)
    axes.set_xlabel("step")


def _panels(figure: Figure, known: Sequence[StepFacts], value: Callable[[Step, Side], float]) -> tuple[Axes, Axes]:
    seconds, ratio = figure.subplots(2, 1, sharex=True, height_ratios=(2.1, 1))
    for side, color, shift in SIDES:
        for at, fact in _with_side(known, side):
            seconds.bar(at + shift, value(fact.step, side), 0.36, color=color, linewidth=0)
    seconds.set_ylabel("seconds")
    ratio.set_ylabel("off \u00f7 on")
    ratio.axhline(1.0, color=SOFT, linewidth=0.9)
    for axes in (seconds, ratio):
        plain(axes)
        cold_band(axes, known, label=axes is seconds)
    name_steps(ratio, known)
    return seconds, ratio


def _key(axes: Axes, *more: Patch) -> None:
    marks = [Patch(color=OFF, label="off"), Patch(color=ON, label="on"), *more]
    axes.legend(handles=marks, loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.0, handleheight=1.0)


def _with_side(known: Sequence[StepFacts], side: Side) -> list[tuple[int, StepFacts]]:
    """Return the steps that ran on a side, with their position on the x axis."""
    return [(at, fact) for at, fact in enumerate(known) if any(rollout.side == side for rollout in fact.step.rollouts)]


def _ratios(axes: Axes, values: Sequence[float | None], name: str, *, dashed: bool = False) -> None:
    points = [(at, value) for at, value in enumerate(values) if value is not None]
    if not points:
        return
    places, ratios = zip(*points, strict=True)
    label = f"{name}, median {median(ratios):.2f}x"
    style, color = ("--", SOFT) if dashed else ("-", INK)
    axes.plot(places, ratios, style, color=color, marker="o", markersize=4, linewidth=1.4, label=label)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.8), max(high, 1.1 * max(ratios)))
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.6)
