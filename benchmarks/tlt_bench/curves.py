"""
`tlt bench curves`: check that reinforcement learning progresses the same with speculation and lending as without.

Every seed is trained on both sides, from the same policy on the same prompts. Responses are sampled independently, so
two runs differ by chance even on one side; the spread between seeds measures this.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import typer

from countdown.record import Side, Step
from countdown.run import Observer, suite, train
from countdown.settings import DemoSettings
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.errors import TltError
from tlt_local.interrupt import run as run_until_signalled
from tlt_local.stack import Stack

SIDES: tuple[Side, Side] = ("on", "off")
LONG = DemoSettings(max_steps=8, minutes=30.0, cap_tokens=768, paired=False)
SHORT = replace(LONG, max_steps=2, prompts=4, cap_tokens=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training run."""

    seed: int
    side: Side
    rewards: tuple[float, ...]
    """Mean reward of each step."""
    accept_length: float
    """Accept length of the last step."""


def measure(*, quick: bool, seeds: int, observer: Observer) -> Result:
    """
    Train `seeds` times on each side, and compare.

    Raises:
        TltError: A component failed, or a run has too few steps.
    """
    settings = SHORT if quick else LONG
    with scratch() as directory:
        found: list[Curve] = []

        async def body() -> None:
            found.extend(await _run(settings, seeds, directory, observer))

        signal_number = run_until_signalled(body)
        if signal_number:
            raise typer.Exit(128 + signal_number)
    return Result(
        name="curves",
        figures=compared(found),
        spread={
            f"reward_{side}": _range([mean(curve.rewards) for curve in found if curve.side == side]) for side in SIDES
        },
        repeats=seeds,
        notes={
            "reward_gap": "mean reward of all steps and seeds, on - off",
            "seed_spread": "standard deviation of a run's mean reward between seeds, of both sides together",
            **{
                f"curve_{curve.side}_{curve.seed}": " ".join(f"{value:.3f}" for value in curve.rewards)
                for curve in found
            },
        },
    )


async def _run(settings: DemoSettings, seeds: int, directory: Path, observer: Observer) -> list[Curve]:
    curves = []
    async with Stack(await suite(settings, directory), say=observer.on_stage) as stack:
        for seed, side in product(range(seeds), SIDES):
            observer.on_stage(f"training: seed {seed}, {side}")
            run_settings = replace(settings, seed=seed, sides=(side,))
            ends_unix_s = time.time() + 60 * settings.minutes
            steps = await train(run_settings, stack, directory, observer, ends_unix_s=ends_unix_s)
            if (count := len(steps)) < settings.max_steps:
                raise TltError(f"seed {seed}, {side}: {count} of {settings.max_steps} steps in {settings.minutes} min")
            curves.append(_curve(seed, side, steps))
    return curves


def _curve(seed: int, side: Side, steps: Sequence[Step]) -> Curve:
    rollouts = [step.side(side) for step in steps]
    rewards = tuple(rollout.mean_reward for rollout in rollouts)
    return Curve(seed=seed, side=side, rewards=rewards, accept_length=rollouts[-1].accept_length)


def compared(curves: Sequence[Curve]) -> dict[str, float]:
    """Compare the sides; `gap_limit` is two standard errors of the gap. Needs at least two seeds per side."""
    by_side = {side: [mean(curve.rewards) for curve in curves if curve.side == side] for side in SIDES}
    on, off = (by_side[side] for side in SIDES)
    spread = ((stdev(on) ** 2 + stdev(off) ** 2) / 2) ** 0.5
    gap = mean(on) - mean(off)
    limit = 2 * spread * (1 / len(on) + 1 / len(off)) ** 0.5
    last = {side: mean(curve.rewards[-1] for curve in curves if curve.side == side) for side in SIDES}
    return {
        "reward_on": mean(on),
        "reward_off": mean(off),
        "reward_gap": gap,
        "seed_spread": spread,
        "gap_limit": limit,
        "within_spread": float(abs(gap) <= limit),
        "reward_last_on": last["on"],
        "reward_last_off": last["off"],
        "accept_length_on": mean(curve.accept_length for curve in curves if curve.side == "on"),
        "accept_length_off": mean(curve.accept_length for curve in curves if curve.side == "off"),
    }


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
