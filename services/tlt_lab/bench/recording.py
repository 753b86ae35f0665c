"""`tlt bench trace`: rounds of every arm at every batch size, for `tlt tuner replay`."""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_lab.bench.order import Ask, Start
from tlt_lab.bench.prepare import Ground, prepared
from tlt_lab.bench.sides import Side, say, started
from tlt_lab.bench.workload import PROMPT_TOKENS, long_tailed, mixed_prompts

GROUP = 4
"""Samples of a prompt, so that there are siblings to retrieve from."""
RUNS = (1, 2, 4, 6)
"""How many rounds an arm stays: a switch must not be in every one."""
SHUFFLES = 30
"""Orders of all arms before the first comes again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingPlan:
    """Rollouts by number of responses; the tail of each goes through all smaller batch sizes."""

    responses: tuple[int, ...]
    longest: int


FULL = RecordingPlan(responses=(31, 15, 31, 7), longest=1024)
QUICK = RecordingPlan(responses=(15, 7), longest=1024)


def record(to: Path, arms: Sequence[str], ground: Ground, *, quick: bool) -> None:
    """
    Write a trace; progress goes to stderr.

    Raises:
        TltError: The file cannot be written, or the engine failed.
    """
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        asyncio.run(_record(to.absolute(), tuple(arms), ground, QUICK if quick else FULL, Path(scratch)))


async def _record(to: Path, arms: tuple[str, ...], ground: Ground, plan: RecordingPlan, scratch: Path) -> None:
    ready = await prepared(ground, scratch)
    start = Start(
        model=ready.model,
        drafter=ready.drafter,
        arms=arms,
        context_length=plan.longest + PROMPT_TOKENS,
        simulated_accept_length=ready.simulated_accept_length,
        trace=str(to),
    )
    side = Side("engine", start, ready.variables)
    async with started(side):
        for rollout, count in enumerate(plan.responses):
            say(f"rollout {rollout + 1} of {len(plan.responses)}: {count} responses")
            prompts = mixed_prompts(-(-count // GROUP), seed=rollout)
            await side.force(*drawn_turns(arms, seed=rollout))
            await side.ask(
                Ask(
                    prompts=tuple(prompts[place // GROUP] for place in range(count)),
                    names=tuple(f"{rollout}-{place // GROUP}/{place % GROUP}" for place in range(count)),
                    max_new_tokens=long_tailed(count, seed=rollout, longest=plan.longest),
                )
            )


def drawn_turns(arms: Sequence[str], *, seed: int) -> list[str]:
    """Return the arm of each round: all arms in random order, each for a random number of rounds, over and over."""
    chance = random.Random(seed)
    orders = (chance.sample(arms, len(arms)) for _ in range(SHUFFLES))
    return [arm for order in orders for arm in order for _ in range(chance.choice(RUNS))]
