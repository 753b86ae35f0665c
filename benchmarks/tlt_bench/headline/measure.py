"""
TLT's benefit on this GPU: `python -m tlt_bench.headline.measure FILE DIRECTORY`.

SmolLM2 with its shipped drafter, widened to the bytes of 7 billion parameters (`widened`) in a directory: the
text and its accept lengths are real, and so are a round's costs. All engines run on one GPU and take turns, at
temperature 0.6: the suite's, SGLang without speculation, and SGLang's own EAGLE in static settings with that drafter.

- `off_vs_plain`, `ARM_vs_eagle`: speed in full batches; `ARM_vs_eagle_round`: their round's time ÷ ours.
- `trace_…`: 32 responses with the lengths at which the model ended them, a few of them very long: the time until all
  are there, theirs ÷ ours.
- `…_over_off_bs…`, `bandit_over_best_bs…`: the bandit and each arm against off, and the bandit against the best arm.
- `capture_vs_off`: speed with hidden states captured ÷ without.

Figures are written as they come, and measuring ends in time: what was left out is in the notes. On a CPU, a rehearsal
with the model as it is.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import torch

from tlt_bench.arms.batches import BANDIT, BatchesPlan, measure_batches
from tlt_bench.engines.bench_engine import BenchEngine, in_turn, log, rotated, started
from tlt_bench.engines.commands import Generate, StartEngine, StockSpeculation, Timing
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.gpu.part import LIMIT_S
from tlt_bench.headline.widened import Widening, write_missing
from tlt_bench.ratios import Figures, best, interval, over
from tlt_bench.shapes import DRAFTER, MODEL
from tlt_local.models.published import SMOLLM2
from tlt_worker.capacity.profile import profile_of
from tlt_worker.engine_config import EngineConfig
from word_problems.settings import DRAFTER as SHIPPED

TEMPERATURE: Final = 0.6
STATIC: Final = ("chain-3", "tree-5x4-8", "tree-4x4-16")
"""Settings of SGLang's EAGLE: a short chain, SGLang's own default for a Llama, and a tree that the bandit has, too."""
ENGINE_BYTES: Final = 19 * 2**30
"""Of one engine with its KV cache, graphs and context."""
KV_TOKENS: Final = 24 * 1024
"""Of each engine's cache on a GPU: a trace has 8,000 at most."""
TIME_S: Final = LIMIT_S - 30.0
STEP_S: Final = 20.0
"""Time that is left when a step begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlinePlan:
    """Amount of measurement."""

    statics: tuple[str, ...]
    running: int
    """Number of concurrent responses of a trace."""
    longest: int
    traces: int
    """Number of traces, in addition to one for warm-up."""
    batches: tuple[int, ...]
    """Sizes of full batches."""
    tokens: int
    """Tokens of a response in a full batch."""
    repeats: int

    def at(self, batch: int) -> BatchesPlan:
        """Return the plan that compares all arms at one batch size."""
        return BatchesPlan(tokens={batch: self.tokens}, repeats=max(1, self.repeats // 2), warm_tokens=self.tokens // 2)


FULL: Final = HeadlinePlan(
    statics=STATIC, running=32, longest=1024, traces=5, batches=(1, 8, 32), tokens=128, repeats=6
)
REHEARSAL: Final = HeadlinePlan(
    statics=STATIC[:1], running=4, longest=48, traces=1, batches=(1, 2), tokens=24, repeats=1
)


class Sides:
    """The engines, not yet started."""

    def __init__(self, ready: Prepared, arms: tuple[str, ...], plan: HeadlinePlan) -> None:
        first = ready.start(arms, context_length=plan.longest + ready.task.prompt_tokens)
        limits = {"max_running": plan.running, "max_total_tokens": KV_TOKENS if ready.on_gpu else None}
        start = first.model_copy(update={"engine": first.engine.model_copy(update=limits)})
        bare = StartEngine(model=start.model, stock=True, engine=start.engine.model_copy(update={"drafter": None}))
        assert ready.drafter is not None  # noqa: S101 - it was widened
        self.ours = self._engine("ours", start, ready)
        self.plain = self._engine("plain", bare, ready)
        self.static = {
            name: self._engine(
                f"SGLang's {name}",
                bare.model_copy(update={"speculation": StockSpeculation(arm=name, drafter=ready.drafter)}),
                ready,
            )
            for name in plan.statics
        }

    @property
    def all(self) -> tuple[BenchEngine, ...]:
        """The engines in the order in which they start."""
        return (self.ours, self.plain, *self.static.values())

    @staticmethod
    def _engine(name: str, start: StartEngine, ready: Prepared) -> BenchEngine:
        return BenchEngine(name, start, ready.variables, temperature=TEMPERATURE)


def main(path: Path, directory: Path) -> None:
    """Write the widened models and measure."""
    began_s = time.monotonic()
    model = SMOLLM2.directory
    if not SMOLLM2.is_here:
        sys.exit(f"{SMOLLM2.name} is not on this machine; `tlt models get {SMOLLM2.name}` fetches it")
    plan, drafter = REHEARSAL, SHIPPED
    if torch.cuda.is_available():
        write_missing(model, drafter, directory, Widening(), device="cuda")
        model, drafter = directory / MODEL, directory / DRAFTER
        free, _ = torch.cuda.mem_get_info()
        plan = replace(FULL, statics=STATIC[: max(1, free // ENGINE_BYTES - 2)])
    target = BenchTarget(model=model, drafter=drafter)
    directory.mkdir(parents=True, exist_ok=True)
    asyncio.run(Headline(path, plan, until_s=began_s + TIME_S).measure(target, directory))


class Headline:
    """
    Measures until its time is up.

    Args:
        path: Receives the figures.
        plan: Amount of measurement.
        until_s: End of the measurement on the monotonic clock.
    """

    def __init__(self, path: Path, plan: HeadlinePlan, *, until_s: float) -> None:
        self._path, self._plan, self._until_s = path, plan, until_s
        self._found = Figures()

    async def measure(self, target: BenchTarget, scratch: Path) -> None:
        """Start all engines and measure, the most important figures first."""
        ready, plan = await prepared(target, scratch), self._plan
        arms = tuple(arm.name for arm in profile_of(EngineConfig(), target.accelerator).arms)
        sides = Sides(ready, arms, plan)
        steps: dict[str, Callable[[], Awaitable[Figures]]] = {
            "off_vs_plain": lambda: _in_turn(sides, {"off": sides.plain}, plan, plan.batches[:2]),
            "eagle": lambda: _in_turn(
                sides, {arm: one for arm, one in sides.static.items() if arm in arms}, plan, plan.batches[:2]
            ),
            "traces": lambda: _traces(sides, plan, self._until_s),
            **{f"batch {batch}": partial(measure_batches, sides.ours, arms, plan.at(batch)) for batch in plan.batches},
            "capture": lambda: _capture(sides.ours, plan),
        }
        async with started(*sides.all, shared=True):
            for name, step in steps.items():
                if time.monotonic() + STEP_S > self._until_s:
                    self._found.notes[name] = "left out: there was no time"
                    continue
                self._keep(await step())

    def _keep(self, more: Figures) -> None:
        self._found.merge(more)
        kept = {"figures": self._found.figures, "spread": self._found.spread, "notes": self._found.notes}
        self._path.write_text(json.dumps(kept, indent=1) + "\n")
        log(json.dumps(more.figures))


async def _in_turn(
    sides: Sides, others: Mapping[str, BenchEngine], plan: HeadlinePlan, batches: Sequence[int]
) -> Figures:
    """Compare arms of the suite's engine to the engines given for them."""
    found = Figures()
    for arm, other in others.items():
        for batch in batches:
            await sides.ours.force_arms(arm)
            mine, theirs = await in_turn((sides.ours, other), batch, plan.tokens, plan.repeats)
            name = "off_vs_plain" if other is sides.plain else f"{arm}_vs_eagle"
            found.merge(_compared(f"{name}_bs{batch}", mine, theirs))
    return found


def _compared(name: str, mine: Sequence[Timing], other: Sequence[Timing]) -> Figures:
    """Compare speeds, round times and accept lengths. Values above 1 are in our favor."""
    found, speeds = Figures(), over([each.rate for each in mine], [each.rate for each in other])
    found.add(name, speeds)
    found.add(f"{name}_round", over([each.round_s for each in other], [each.round_s for each in mine]))
    found.add(f"{name}_accept", over([each.accept_length for each in mine], [each.accept_length for each in other]))
    ours, theirs = (median(1000 * each.round_s for each in side) for side in (mine, other))
    low, high = interval(speeds)
    found.notes[name] = f"95 % {low:.3f} to {high:.3f}; a round takes {ours:.2f} and {theirs:.2f} ms"
    return found


async def _traces(sides: Sides, plan: HeadlinePlan, until_s: float) -> Figures:
    """
    Compare the time of whole traces.

    SGLang without speculation comes first: its responses end by themselves, and the others' have the same lengths. The
    suite's engine with speculation off comes last, since its responses could be retrieved.
    """
    seconds: dict[str, list[float]] = {}
    lengths: list[int] = []
    for repeat in range(plan.traces + 1):
        began_s = time.monotonic()
        prompts = sides.ours.task.hard(plan.running, seed=50_000 + repeat)
        longest = (plan.longest,) * plan.running
        first = await sides.plain.generate(Generate(prompts=prompts, max_new_tokens=longest, ends=True))
        again = Generate(prompts=prompts, max_new_tokens=first.tokens, is_planned=True)
        took = {"plain": first.seconds}
        for name in rotated((*sides.static, BANDIT), repeat):
            if name == BANDIT:
                await sides.ours.force_arms()
            engine = sides.ours if name == BANDIT else sides.static[name]
            took[name] = (await engine.generate(again)).seconds
        await sides.ours.force_arms("off")
        took["off"] = (await sides.ours.generate(again)).seconds
        log(f"trace {repeat}: {json.dumps(took)}")
        if repeat:  # the first warms up
            lengths += first.tokens
            for name, each in took.items():
                seconds.setdefault(name, []).append(each)
            if 2 * time.monotonic() - began_s > until_s:
                break
    return _judged(seconds, lengths)


def _judged(seconds: Mapping[str, Sequence[float]], lengths: Sequence[int]) -> Figures:
    """Return the figures of traces from the seconds of each side."""
    found, bandit = Figures(), seconds[BANDIT]
    statics = {name: [1 / each for each in took] for name, took in seconds.items() if name in STATIC}
    fastest = best(statics)
    for name, other in (("best_static", seconds[fastest]), ("off", seconds["off"]), ("plain", seconds["plain"])):
        low, high = interval(over(other, bandit))
        found.add(f"trace_bandit_vs_{name}", over(other, bandit), f"95 % {low:.3f} to {high:.3f}")
    found.add("trace_off_vs_plain", over(seconds["plain"], seconds["off"]))
    for name in statics:
        found.add(f"trace_{name}_vs_plain", over(seconds["plain"], seconds[name]))
    ordered = sorted(lengths)
    found.notes["trace"] = (
        f"the best static setting is {fastest}; medians in s: "
        + ", ".join(f"{name} {median(took):.2f}" for name, took in seconds.items())
        + f"; tokens of a response: median {median(ordered):.0f}, one in ten above {ordered[len(ordered) * 9 // 10]}, "
        f"longest {ordered[-1]}"
    )
    return found


async def _capture(ours: BenchEngine, plan: HeadlinePlan) -> Figures:
    """Compare off with hidden states captured to off without."""
    await ours.force_arms("off")
    batch = plan.batches[1]
    rates: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(plan.repeats + 1):
        for enabled in rotated((True, False), repeat):
            await ours.set_capture(enabled=enabled)
            prompts = ours.task.hard(batch, seed=90_000 + 2 * repeat + enabled)
            timing = await ours.generate(Generate(prompts=prompts, max_new_tokens=(plan.tokens,) * batch))
            if repeat:
                rates[enabled].append(timing.rate)
    found = Figures()
    found.add(f"capture_vs_off_bs{batch}", over(rates[True], rates[False]))
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
