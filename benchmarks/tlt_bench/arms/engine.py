"""`tlt bench engine`: cost and speedup of the engine's arms, each against its baseline in one run."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.arms import adaptive, off, speed
from tlt_bench.engines.bench_engine import BenchEngine, started
from tlt_bench.engines.commands import StartEngine
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.workload import LONGEST_TOKENS, PROMPT_TOKENS
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.engine_config import EngineConfig

CHAINS = tuple(f"chain-{steps}{kind}" for steps in speed.LENGTHS for kind in ("", "-top1"))
TREES = ("tree-3x4-12",)
LOOKED_UP = tuple(f"ngram-{steps}" for steps in speed.LENGTHS)
"""Also measure verification alone: as many tokens as a chain's, without the drafter."""
RETRIEVAL = "ngram-7"

PARTS = ("off", "speed", "adaptive", "ngram")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsPlan:
    """Amount of measurement for each part."""

    off: off.OffPlan
    speed: speed.SpeedPlan
    rollouts: adaptive.RolloutPlan


FULL = ArmsPlan(off=off.FULL, speed=speed.FULL, rollouts=adaptive.FULL)
QUICK = ArmsPlan(off=off.QUICK, speed=speed.QUICK, rollouts=adaptive.QUICK)


def measure(target: BenchTarget, *, quick: bool, parts: tuple[str, ...] = PARTS) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    plan = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found, device = asyncio.run(_measure(plan, target, Path(scratch), parts))
    notes = {"repeats": "of off_vs_plain and control; see the notes", "engine": device, **found.notes}
    return Result(
        name="engine",
        figures=found.figures,
        spread=found.spread,
        repeats=plan.off.starts * min(plan.off.repeats.values()),
        notes=notes,
    )


async def _measure(plan: ArmsPlan, target: BenchTarget, scratch: Path, parts: tuple[str, ...]) -> tuple[Figures, str]:
    sides = _Sides(await prepared(target, scratch), target.accelerator)
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
    """Engines of the benchmark, not yet started."""

    def __init__(self, ready: Prepared, accelerator: Accelerator) -> None:
        self.defaults = tuple(arm.name for arm in profile_of(EngineConfig(), accelerator).arms)
        """Arms of the bandit if a worker's configuration sets none."""
        # Named trees would change the attention backend of every round, off included.
        trees = TREES if accelerator.stock.verifies_trees else ()
        self.arms = ("off", *CHAINS, *trees, *LOOKED_UP)
        context = LONGEST_TOKENS + PROMPT_TOKENS
        start = ready.start(self.arms, context_length=context)
        stock = StartEngine(model=start.model, stock=True, engine=start.engine.model_copy(update={"drafter": None}))
        self.ours = BenchEngine("ours", start, ready.variables)
        self.plain, self.control = (BenchEngine(name, stock, ready.variables) for name in ("plain", "control"))
        self.adaptive = BenchEngine("adaptive", ready.start(self.defaults, context_length=context), ready.variables)
        looks_up = ready.start(("off", RETRIEVAL), context_length=context, with_drafter=False)
        self.retrieval = BenchEngine("retrieval", looks_up, ready.variables)
