"""Charts of both sides' responses: lengths, rewards, and rewards over training."""

import math
from statistics import pstdev

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countdown.record import Rollout, Run, Side
from countdown.report.chart import draw, plain
from countdown.report.facts import StepFacts, facts, responses
from countdown.report.palette import MIX, OFF, ON
from countdown.report.speed import name_steps

SIDES: tuple[tuple[Side, str], ...] = (("off", OFF), ("on", ON))


def lengths(run: Run) -> str:
    """Draw the histogram and cumulative distribution of response lengths in tokens."""
    on, off = ([float(response.tokens) for response in responses(run, side)] for side in ("on", "off"))
    return draw("lengths", "Response lengths of both sides", 3.0, lambda figure: _overlay(figure, on, off, "tokens"))


def rewards(run: Run) -> str:
    """Draw the histogram and cumulative distribution of rewards."""
    on, off = ([response.reward for response in responses(run, side)] for side in ("on", "off"))
    return draw("rewards", "Rewards of both sides", 3.0, lambda figure: _overlay(figure, on, off, "reward"))


def training(run: Run) -> str:
    """Draw mean reward and accuracy of both sides per step, and the step's mix of problems if they are of kinds."""
    known = facts(run)
    heights = (1.6, 1.6, 1) if run.has_mix else (1.6, 1.6)

    def paint(figure: Figure) -> None:
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        reward, accuracy, *mixes = panels
        for at, (side, color) in zip((-0.07, 0.07), SIDES, strict=True):
            with_side = [fact.step if side == "on" or fact.step.is_compared else None for fact in known]
            rollouts = [step.side(side) for step in with_side if step]
            places = [place + at for place, step in enumerate(with_side) if step]
            means = [rollout.mean_reward for rollout in rollouts]
            errors = [_standard_error(rollout) for rollout in rollouts]
            reward.errorbar(places, means, errors, fmt="o-", color=color, markersize=4, linewidth=1.2, label=side)
            accuracy.plot(places, [rollout.accuracy for rollout in rollouts], "o-", color=color, markersize=4)
        reward.set_ylabel("mean reward")
        reward.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.6)
        accuracy.set_ylabel("accuracy")
        accuracy.yaxis.set_major_formatter("{x:.0%}")
        for axes in (reward, accuracy):
            plain(axes)
        for mix in mixes:
            _mix(mix, known)
        name_steps(panels[-1], known)

    return draw("training", "Reward and accuracy of both sides per step", 4.6 if run.has_mix else 3.6, paint)


def _overlay(figure: Figure, on: list[float], off: list[float], unit: str) -> None:
    shares, cumulative = figure.subplots(1, 2)
    edges = np.histogram_bin_edges([*on, *off], bins=36)
    for values, (side, color) in zip((off, on), SIDES, strict=True):
        weights = np.full(len(values), 1 / len(values))
        shares.hist(values, edges, weights=weights, color=color, alpha=0.22, linewidth=0)
        shares.hist(values, edges, weights=weights, color=color, histtype="step", linewidth=1.3)
        cumulative.ecdf(values, color=color, linewidth=1.6, label=side)
    shares.set_ylabel("share of responses")
    shares.yaxis.set_major_formatter("{x:.0%}")
    cumulative.set_ylabel("cumulative share")
    cumulative.yaxis.set_major_formatter("{x:.0%}")
    cumulative.legend(loc="lower right", handlelength=1.6)
    for axes in (shares, cumulative):
        axes.set_xlabel(unit)
        plain(axes)


def _mix(axes: Axes, known: tuple[StepFacts, ...]) -> None:
    bottom = np.zeros(len(known))
    counts = sorted({count for fact in known for count in fact.step.mix})
    for place, count in enumerate(counts):
        share = np.array([fact.step.mix.get(count, 0.0) for fact in known])
        color = MIX[min(place, len(MIX) - 1)]
        axes.bar(range(len(known)), share, 0.8, bottom=bottom, color=color, linewidth=0, label=f"{count} numbers")
        bottom += share
    axes.set_ylabel("problems")
    axes.set_yticks([0, 1], ["0%", "100%"])
    axes.tick_params(length=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.1), handlelength=1.0, handleheight=1.0, reverse=True)


def _standard_error(rollout: Rollout) -> float:
    values = [response.reward for response in rollout.responses]
    return pstdev(values) / math.sqrt(len(values))
