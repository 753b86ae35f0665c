"""`tlt bench engine`: what the engine's arms cost and bring, each against its baseline in one run."""

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tlt_common.domain.strategy import Arm
from tlt_lab.bench import adaptive, off, speed
from tlt_lab.bench.order import Start
from tlt_lab.bench.prepare import Ground, Prepared, prepared
from tlt_lab.bench.ratios import Figures
from tlt_lab.bench.result import Result
from tlt_lab.bench.sides import Side, started
from tlt_lab.bench.workload import LONGEST_TOKENS, PROMPT_TOKENS
from tlt_worker.graphs.acceptance import default_arms

CHAINS = tuple(f"chain-{steps}{kind}" for steps in speed.LENGTHS for kind in ("", "-top1"))
TREES = ("tree-3x4-12",)
LOOKED_UP = tuple(f"ngram-{steps}" for steps in speed.LENGTHS)
"""Also what verification alone costs: as many tokens as a chain's, without the drafter."""
RETRIEVAL = "ngram-7"

PARTS = ("off", "speed", "adaptive", "ngram")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """How much of each part."""

    off: off.OffPlan
    speed: speed.SpeedPlan
    rollouts: adaptive.RolloutPlan


FULL = EnginePlan(off=off.FULL, speed=speed.FULL, rollouts=adaptive.FULL)
QUICK = EnginePlan(off=off.QUICK, speed=speed.QUICK, rollouts=adaptive.QUICK)


def measure(ground: Ground, *, quick: bool, parts: tuple[str, ...] = PARTS) -> Result:
    """Run and take the figures; progress goes to stderr."""
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found, here = asyncio.run(_measure(plan, ground, Path(scratch), parts))
    notes = {"repeats": "of off_vs_plain and control; notes say more", "engine": here, **found.notes}
    return Result(
        name="engine",
        figures=found.figures,
        spread=found.spread,
        repeats=plan.off.starts * min(plan.off.repeats.values()),
        notes=notes,
    )


async def _measure(plan: EnginePlan, ground: Ground, scratch: Path, parts: tuple[str, ...]) -> tuple[Figures, str]:
    sides = _Sides(await prepared(ground, scratch), default_arms(ground.kind))
    found = Figures()
    if "off" in parts:
        found.merge(await off.measure_off(sides.ours, sides.plain, sides.control, plan.off))
    if "speed" in parts:
        async with started(sides.ours):
            found.merge(await speed.measure_speed(sides.ours, sides.arms, plan.speed))
    if "adaptive" in parts:
        async with started(sides.adaptive):
            found.merge(await adaptive.measure_adaptive(sides.adaptive, sides.defaults, plan.rollouts))
    if "ngram" in parts:
        async with started(sides.retrieval):
            found.merge(await adaptive.measure_retrieval(sides.retrieval, RETRIEVAL, plan.rollouts))
    return found, next(side.detail for side in (sides.ours, sides.adaptive, sides.retrieval) if side.detail)


class _Sides:
    """Engines of the bench, not yet started."""

    def __init__(self, ready: Prepared, defaults: Sequence[Arm]) -> None:
        self.defaults = tuple(arm.name for arm in defaults)
        """What the bandit chooses from where a worker is told nothing."""
        self.arms = ("off", *CHAINS, *TREES, *LOOKED_UP)
        start = Start(
            model=ready.model,
            drafter=ready.drafter,
            arms=self.arms,
            context_length=LONGEST_TOKENS + PROMPT_TOKENS,
            simulated_accept_length=ready.simulated_accept_length,
        )
        stock = start.model_copy(update={"stock": True, "drafter": "", "simulated_accept_length": 0.0})
        self.ours = Side("ours", start, ready.variables)
        self.plain, self.control = (Side(name, stock, ready.variables) for name in ("plain", "control"))
        self.adaptive = Side("adaptive", start.model_copy(update={"arms": self.defaults}), ready.variables)
        looks_up = start.model_copy(update={"arms": ("off", RETRIEVAL), "drafter": ""})
        self.retrieval = Side("retrieval", looks_up, ready.variables)
