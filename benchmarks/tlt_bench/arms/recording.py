"""`tlt bench trace`: record rounds of every arm at every batch size, for `tlt bench tuner --trace`."""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.engines.bench_engine import BenchEngine, log, started
from tlt_bench.engines.commands import Generate
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.workload import long_tailed
from tlt_common.domain.arm import arm_named

GROUP = 4
"""Samples per prompt, so that sibling responses are available for retrieval."""
RUNS = (1, 2, 4, 6)
"""Possible numbers of consecutive rounds per arm: not every round may be a switch."""
SHUFFLES = 30
"""Shuffled orders of all arms before the sequence repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingPlan:
    """Rollouts by number of responses; the tail of each passes through all smaller batch sizes."""

    responses: tuple[int, ...]
    longest: int


FULL = RecordingPlan(responses=(31, 15, 31, 7), longest=1024)
QUICK = RecordingPlan(responses=(15, 7), longest=1024)


def record(to: Path, arms: Sequence[str], target: BenchTarget, *, quick: bool) -> None:
    """
    Write a trace. Progress goes to stderr.

    Raises:
        ConfigError: An arm needs a drafter, and the target has none.
        TltError: The file cannot be written, or the engine failed.
    """
    for arm in arms:
        if arm_named(arm).needs_drafter:
            target.require_drafter(arm)
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        asyncio.run(_record(to.absolute(), tuple(arms), target, QUICK if quick else FULL, Path(scratch)))


async def _record(to: Path, arms: tuple[str, ...], target: BenchTarget, plan: RecordingPlan, scratch: Path) -> None:
    ready = await prepared(target, scratch)
    start = ready.start(arms, context_length=plan.longest + ready.task.prompt_tokens, trace=to)
    engine = BenchEngine("engine", start, ready.variables)
    async with started(engine):
        for rollout, count in enumerate(plan.responses):
            log(f"rollout {rollout + 1} of {len(plan.responses)}: {count} responses")
            prompts = engine.task.mixed(-(-count // GROUP), seed=rollout)
            await engine.force_arms(*drawn_arms(arms, seed=rollout))
            await engine.generate(
                Generate(
                    prompts=tuple(prompts[place // GROUP] for place in range(count)),
                    names=tuple(f"{rollout}-{place // GROUP}/{place % GROUP}" for place in range(count)),
                    max_new_tokens=long_tailed(count, seed=rollout, longest=plan.longest),
                )
            )


def drawn_arms(arms: Sequence[str], *, seed: int) -> list[str]:
    """Return the arm of each round: repeatedly all arms in random order, each for a random number of rounds."""
    chance = random.Random(seed)
    orders = (chance.sample(arms, len(arms)) for _ in range(SHUFFLES))
    return [arm for order in orders for arm in order for _ in range(chance.choice(RUNS))]
