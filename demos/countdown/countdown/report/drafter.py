"""Charts of the drafter's progress and of the idle time used to train it."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from countdown.record import Run
from countdown.report.chart import draw, plain
from countdown.report.facts import IN_BUBBLES, StepFacts, facts, mean_count
from countdown.report.palette import MIX, ON, SOFT, STATES
from countdown.report.speed import cold_band, name_steps


def accept_length(run: Run) -> str:
    """Draw over time: accept length of every `on` rollout with swaps, held-out accuracy of drafters, problem mix."""
    origin = run.steps[0].rollouts[0].began_unix_s

    def paint(figure: Figure) -> None:
        heights = (2.4, 1, 0.9) if run.has_mix else (2.4, 1)
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        accepted, held_out, *mixes = panels
        swaps = [(swap.at_unix_s - origin) / 60 for swap in run.swaps]
        for axes in panels:
            plain(axes)
            for at in swaps:
                axes.axvline(at, color=STATES["training"], linewidth=0.7, alpha=0.55)
        _accepted(accepted, run, facts(run), origin)
        _swap_names(accepted, run, swaps)
        held_out.plot(swaps, [swap.held_out_top1 for swap in run.swaps], "o-", color=STATES["training"], markersize=4)
        held_out.set_ylabel("held-out\ntop-1")
        if run.swaps:
            held_out.yaxis.set_major_formatter("{x:.0%}")
        for mix in mixes:
            times = [(step.side("on").began_unix_s + step.side("on").seconds / 2 - origin) / 60 for step in run.steps]
            mix.plot(times, [mean_count(step) for step in run.steps], "o-", color=MIX[2], markersize=4)
            mix.set_ylabel("numbers per\nproblem")
        panels[-1].set_xlabel("minutes")

    return draw("accept", "Accept length over time, with drafter swaps", 4.9 if run.has_mix else 4.1, paint)


def bubbles(run: Run) -> str:
    """Draw worker-seconds without a request per step, by state, labeled with the share used for training."""
    known = facts(run)

    def paint(figure: Figure) -> None:
        axes = figure.subplots()
        bottom = np.zeros(len(known))
        for state in IN_BUBBLES:
            spent = np.array(
                [fact.step.side("on").ledger.get(state, 0.0) + fact.step.learn_ledger.get(state, 0.0) for fact in known]
            )
            axes.bar(range(len(known)), spent, 0.66, bottom=bottom, color=STATES[state], linewidth=0, label=state)
            bottom += spent
        for at, fact in enumerate(known):
            share = f"{fact.bubble_utilisation:.0%}"
            axes.annotate(share, (at, bottom[at]), (0, 3), textcoords="offset points", ha="center", fontsize=9)
        plain(axes)
        cold_band(axes, known)
        name_steps(axes, known)
        axes.set_ylabel("worker-seconds")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), handlelength=1.0, handleheight=1.0, reverse=True)

    return draw("bubbles", "Idle worker-seconds per step and the share used for training", 3.0, paint)


def _accepted(axes: Axes, run: Run, known: tuple[StepFacts, ...], origin: float) -> None:
    for fact in known:
        rollout = fact.step.side("on")
        left, right = ((at - origin) / 60 for at in (rollout.began_unix_s, rollout.began_unix_s + rollout.seconds))
        axes.plot([left, right], [rollout.accept_length] * 2, color=ON, linewidth=4, solid_capstyle="butt")
        axes.annotate(
            str(fact.step.index),
            ((left + right) / 2, rollout.accept_length),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=SOFT,
        )
    axes.axhline(1.0, color=SOFT, linewidth=0.9)
    highest = max(step.side("on").accept_length for step in run.steps)
    axes.set_ylim(0.8, max(2.0, 1.15 * highest))
    axes.set_ylabel("tokens per round")


def _swap_names(axes: Axes, run: Run, swaps: list[float]) -> None:
    labeled = float("-inf")
    gap = 0.03 * (run.ended_unix_s - run.began_unix_s) / 60
    for swap, at in zip(run.swaps, swaps, strict=True):
        if at - labeled > gap:
            axes.annotate(
                f"v{swap.version}",
                (at, 1.0),
                (0, 3),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                fontsize=8.5,
                color=STATES["training"],
            )
            labeled = at
