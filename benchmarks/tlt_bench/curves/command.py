"""`tlt bench curves`: trains every seed on both sides, from the same policy on the same prompts."""

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean

import typer

from countdown.job import demo
from countdown.record import Side, Step
from countdown.run import Observer, suite, train
from countdown.settings import DRAFTER, DemoSettings
from tlt_bench.curves.curve import SIDES, Curve, compared
from tlt_bench.curves.kind import Kind
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_common.client import Client
from tlt_common.errors import TltError
from tlt_local.interrupt import run as run_until_signalled
from tlt_local.stack import Stack

LONG = DemoSettings(max_steps=8, minutes=30.0, cap_tokens=768, paired=False)
SHORT = replace(LONG, max_steps=2, prompts=4, cap_tokens=256)


def measure(kind: Kind, *, quick: bool, seeds: int, observer: Observer) -> Result:
    """
    Train `seeds` times on each side, and compare. Responses are sampled independently, so two runs differ by chance
    even on one side; the spread between seeds measures this.

    Raises:
        TltError: A component failed, or a run has too few steps.
    """
    with scratch() as directory:
        found: list[Curve] = []

        async def body() -> None:
            settings = SHORT if quick else LONG
            if kind is not Kind.GRPO:  # runs of a few minutes, which would end soon after a first drafter
                settings = replace(settings, drafter=str(DRAFTER))
            found.extend(await _run(kind, settings, seeds, directory, observer))

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
            "kind": kind.value,
            "reward_gap": "mean reward of all steps and seeds, on - off",
            "seed_spread": "standard deviation of a run's mean reward between seeds, of both sides together",
            **{
                f"curve_{curve.side}_{curve.seed}": " ".join(f"{value:.3f}" for value in curve.rewards)
                for curve in found
            },
        },
    )


async def _run(kind: Kind, settings: DemoSettings, seeds: int, directory: Path, observer: Observer) -> list[Curve]:
    curves = []
    async with Stack(await suite(demo(settings), directory, directory / "journal"), say=observer.on_stage) as stack:
        for seed, side in product(range(seeds), SIDES):
            observer.on_stage(f"training: seed {seed}, {side}")
            if kind is Kind.GRPO:
                curves.append(await _demo_run(replace(settings, seed=seed, sides=(side,)), stack, directory, observer))
            else:
                curves.append(await _own_run(kind, settings, side, seed, stack, observer))
    return curves


async def _demo_run(settings: DemoSettings, stack: Stack, directory: Path, observer: Observer) -> Curve:
    (side,) = settings.sides
    ends_unix_s = time.time() + 60 * settings.minutes
    steps = await train(demo(settings), stack, directory, observer, ends_unix_s=ends_unix_s)
    if (count := len(steps)) < settings.max_steps:
        what = f"seed {settings.seed}, {side}: {count} of {settings.max_steps} steps in {settings.minutes} min"
        raise TltError(what)
    return _curve(settings.seed, side, steps)


async def _own_run(
    kind: Kind, settings: DemoSettings, side: Side, seed: int, stack: Stack, observer: Observer
) -> Curve:
    from tlt_bench.curves.own_loop import SHORT as SMALL
    from tlt_bench.curves.own_loop import Run, Settings

    size = SMALL if settings.max_steps == SHORT.max_steps else Settings(steps=settings.max_steps)
    async with Client(stack.endpoint) as client:
        return await Run(kind, side, seed, size, client, observer.on_stage).train(stack.coordinator)


def _curve(seed: int, side: Side, steps: Sequence[Step]) -> Curve:
    rollouts = [step.side(side) for step in steps]
    rewards = tuple(rollout.mean_reward for rollout in rollouts)
    return Curve(seed=seed, side=side, rewards=rewards, accept_length=rollouts[-1].accept_length)


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
