"""
`tlt bench curves`: reinforcement learning goes the same way with drafts and lending as without, or does not.

Every seed is trained on both sides, from the same policy on the same prompts. Responses are sampled afresh, so that two
runs differ by chance even on one side; that is what seeds show.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import typer

from tlt_common.errors import TltError
from tlt_lab.bench.result import Result
from tlt_lab.bench.scratch import scratch
from tlt_lab.demo.record import Side, Step
from tlt_lab.demo.run import Watcher, suite, train
from tlt_lab.demo.settings import DemoSettings
from tlt_lab.up.interrupt import run as run_until_signalled
from tlt_lab.up.stack import Stack

SIDES: tuple[Side, Side] = ("on", "off")
LONG = DemoSettings(steps=8, minutes=30.0, cap_tokens=768, greedy_prompts=0)
SHORT = replace(LONG, steps=2, prompts=4, cap_tokens=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One training run."""

    seed: int
    side: Side
    rewards: tuple[float, ...]
    """Mean reward of each step."""
    accept_length: float
    """Of the last step."""


def measure(*, quick: bool, seeds: int, watcher: Watcher) -> Result:
    """
    Train `seeds` times on each side, and compare.

    Raises:
        TltError: A part failed, or a run has fewer steps than it should.
    """
    settings = SHORT if quick else LONG
    with scratch() as directory:
        found: list[Curve] = []

        async def body() -> None:
            found.extend(await _run(settings, seeds, directory, watcher))

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


async def _run(settings: DemoSettings, seeds: int, directory: Path, watcher: Watcher) -> list[Curve]:
    curves = []
    async with Stack(await suite(settings, directory), say=watcher.say) as stack:
        for seed, side in product(range(seeds), SIDES):
            watcher.say(f"training: seed {seed}, {side}")
            steps = await train(replace(settings, seed=seed, sides=(side,)), stack, directory, watcher)
            if len(steps) < settings.steps:
                raise TltError(f"seed {seed}, {side}: {len(steps)} of {settings.steps} steps in {settings.minutes} min")
            curves.append(_curve(seed, side, steps))
    return curves


def _curve(seed: int, side: Side, steps: Sequence[Step]) -> Curve:
    rollouts = [step.side(side) for step in steps]
    rewards = tuple(rollout.mean_reward for rollout in rollouts)
    return Curve(seed=seed, side=side, rewards=rewards, accept_length=rollouts[-1].accept_length)


def compared(curves: Sequence[Curve]) -> dict[str, float]:
    """Compare; `gap_limit` is two standard errors of the gap. Needs at least two seeds on each side."""
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
