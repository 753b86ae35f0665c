"""`tlt bench engine`: cost and speedup of the engine's arms, each against its baseline in one run."""

import asyncio
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tlt_bench.arms import adaptive, batches, grid, off, speed, versus
from tlt_bench.arms.same_pace import TraceReader
from tlt_bench.engines.bench_engine import BenchEngine, started
from tlt_bench.engines.commands import StartEngine, StockSpeculation
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.workload import LONGEST_TOKENS
from tlt_worker.capacity.profile import Accelerator, profile_of
from tlt_worker.engine_config import EngineConfig

CHAINS = tuple(f"chain-{steps}{kind}" for steps in speed.LENGTHS for kind in ("", "-top1"))
LONG_CHAINS = ("chain-11", "chain-15")
"""Arms that show the value of longer drafts; their kinds are not compared."""
TREES = ("tree-3x4-12",)
LOOKED_UP = tuple(f"ngram-{steps}" for steps in (*speed.LENGTHS, 11, 15))
"""Also measure verification alone: as many tokens as a chain's, without the drafter."""
RETRIEVAL = "ngram-7"
STOCK_CHAINS = ("chain-3", "chain-7")
"""Compared with SGLang's own speculation."""

PARTS = ("off", "speed", "adaptive", "ngram", "batches", "stock", "grid")
DEFAULT_PARTS = PARTS[:4]
"""The others compare more arms than most callers have questions about, in engines of their own."""
TRACE = "rounds.jsonl"
NEED_DRAFTER = ("speed", "stock", "grid")


def measure(
    target: BenchTarget,
    *,
    quick: bool,
    parts: tuple[str, ...] = DEFAULT_PARTS,
    accept_lengths: Mapping[str, float] | None = None,
    temperature: float = 1.0,
) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Args:
        target: Device, model and drafter.
        quick: Whether to run fewer repeats.
        parts: Among `PARTS`.
        accept_lengths: Tokens per round by arm, of which `grid` calculates speeds; None: costs only.
        temperature: Of all sampled responses, above 0.

    Raises:
        ConfigError: A part needs a drafter, and the target has none.
    """
    for part in parts:
        if part in NEED_DRAFTER:
            target.require_drafter(f"part {part}")
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found, device = asyncio.run(_measure(quick, target, Path(scratch), parts, accept_lengths or {}, temperature))
    found.notes |= {
        "temperature": f"{temperature:g}",
        "repeats": "of off_vs_plain and control; see the notes",
        "engine": device,
    }
    compared = off.QUICK if quick else off.FULL
    return found.result("engine", repeats=compared.starts * min(compared.repeats.values()))


async def _measure(
    quick: bool,
    target: BenchTarget,
    scratch: Path,
    parts: tuple[str, ...],
    accept_lengths: Mapping[str, float],
    temperature: float,
) -> tuple[Figures, str]:
    ready = await prepared(target, scratch)
    sides = _Sides(ready, target.accelerator, scratch / TRACE, temperature=temperature)
    found = Figures()
    if "off" in parts:
        found.merge(await off.measure_off(sides.ours, sides.plain, sides.control, quick=quick))
    if "speed" in parts:
        async with started(sides.ours):
            found.merge(await speed.measure_speed(sides.ours, sides.arms, quick=quick))
    if "adaptive" in parts:
        async with started(sides.adaptive):
            found.merge(await adaptive.measure_adaptive(sides.adaptive, sides.defaults, quick=quick))
    if "ngram" in parts:
        async with started(sides.retrieval):
            found.merge(await adaptive.measure_retrieval(sides.retrieval, RETRIEVAL, quick=quick))
    if "batches" in parts:
        async with started(sides.adaptive):
            plan, trace = batches.QUICK if quick else batches.FULL, TraceReader(scratch / TRACE)
            found.merge(await batches.measure_batches(sides.adaptive, sides.defaults, plan, trace))
    if "stock" in parts:
        found.merge(await versus.measure_versus(sides.ours, sides.stock, quick=quick))
    if "grid" in parts:
        async with started(sides.grid):
            found.merge(await grid.measure_grid(sides.grid, sides.grid_arms, accept_lengths, quick=quick))
    ran = (sides.ours, sides.adaptive, sides.retrieval, sides.grid)
    return found, next(side.detail for side in ran if side.detail)


class _Sides:
    """Engines of the benchmark, not yet started."""

    def __init__(self, ready: Prepared, accelerator: Accelerator, trace: Path, *, temperature: float) -> None:
        engine = partial(BenchEngine, temperature=temperature)
        defaults = profile_of(EngineConfig(), accelerator).arms
        self.defaults = tuple(arm.name for arm in defaults if ready.drafter is not None or not arm.needs_drafter)
        """Arms of the bandit if a worker's configuration sets none; without a drafter, those that run then."""
        # Named trees would change the attention backend of every round, off included.
        trees = TREES if accelerator.stock.verifies_trees else ()
        self.arms = ("off", *CHAINS, *LONG_CHAINS, *trees, *LOOKED_UP)
        context = LONGEST_TOKENS + ready.task.prompt_tokens
        start = ready.start(self.arms, context_length=context)
        stock = StartEngine(
            model=start.model,
            stock=True,
            engine=start.engine.model_copy(update={"drafter": None}),
            experiment=ready.experiment,
        )
        self.ours = engine("ours", start, ready.variables)
        self.plain, self.control = (engine(name, stock, ready.variables) for name in ("plain", "control"))
        self.stock = {
            arm: engine(
                f"SGLang's {arm}",
                stock.model_copy(update={"speculation": StockSpeculation(arm=arm, drafter=ready.drafter)}),
                ready.variables,
            )
            for arm in (*STOCK_CHAINS, *trees)
            if ready.drafter is not None
        }
        self.grid_arms = ("off", *grid.CHAINS, *(grid.TREES if trees else ()))
        self.grid = engine("grid", ready.start(self.grid_arms, context_length=context), ready.variables)
        adaptive_start = ready.start(self.defaults, context_length=context, trace=trace)
        self.adaptive = engine("adaptive", adaptive_start, ready.variables)
        looks_up = ready.start(("off", RETRIEVAL), context_length=context, with_drafter=False)
        self.retrieval = engine("retrieval", looks_up, ready.variables)
