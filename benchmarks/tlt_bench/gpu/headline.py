"""
What TLT is worth on this GPU: `python -m tlt_bench.gpu.headline FILE MODEL DRAFTER DIRECTORY`.

A language model with its trained drafter, widened to the bytes of 7 billion parameters (`tlt_bench.widened`): the text
and its accept lengths are real, and so are a round's costs. All engines run on one GPU and take turns, at temperature
0.6: the suite's, SGLang without speculation, and SGLang's own EAGLE in several static settings with the same drafter.

- `off_vs_plain`, `ARM_vs_eagle`: speed in full batches; `ARM_vs_eagle_round`: their round's time ÷ ours.
- `trace_…`: 32 responses with the lengths at which the model ended them, a few of them very long: the time until all
  are there, theirs ÷ ours.
- `…_over_off_bs…`, `bandit_over_best_bs…`: the bandit and each arm against off, and the bandit against the best arm.
- `capture_vs_off`: speed with hidden states captured ÷ without.

Figures are written as they come.
"""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

import torch

from tlt_bench.arms.batches import BatchesPlan, measure_batches
from tlt_bench.arms.off import in_turn
from tlt_bench.engines.bench_engine import BenchEngine, log, rotated, started
from tlt_bench.engines.commands import Generate, StartEngine, StockSpeculation, Timing
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.ratios import Figures, best, interval, over
from tlt_bench.shapes import DRAFTER, MODEL
from tlt_bench.widened import Widening, write_missing
from tlt_worker.capacity.profile import profile_of
from tlt_worker.engine_config import EngineConfig

TEMPERATURE: Final = 0.6
STATIC: Final = ("chain-3", "tree-5x4-8", "tree-4x4-16")
"""Settings of SGLang's EAGLE: a short chain, SGLang's own default for a Llama, and a tree that the bandit has, too."""
ENGINE_BYTES: Final = 19 * 2**30
"""Of one engine with its KV cache, graphs and context; the suite's has room for spot training beside."""
CONTEXT: Final = 1024 + 128
KV_TOKENS: Final = 24 * 1024
"""Of each engine's cache: a trace has 8,000 at most."""
RUNNING: Final = 32
TOKENS: Final = 128
REPEATS: Final = {1: 8, 8: 8, 32: 5}
"""Of full batches, by their size."""
EAGLE_BATCHES: Final = (1, 8)
TRACES: Final = 6
BATCHES: Final = BatchesPlan(tokens={1: TOKENS, 8: TOKENS, 32: TOKENS}, repeats=3, warm_tokens=96)
LONGEST: Final = 1024


class Sides:
    """The engines, not yet started."""

    def __init__(self, ready: Prepared, arms: tuple[str, ...], statics: Sequence[str]) -> None:
        first = ready.start(arms, context_length=CONTEXT)
        limits = {"max_running": RUNNING, "max_total_tokens": KV_TOKENS if ready.on_gpu else None}
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
            for name in statics
        }

    @property
    def all(self) -> tuple[BenchEngine, ...]:
        """In the order in which they start."""
        return (self.ours, self.plain, *self.static.values())

    @staticmethod
    def _engine(name: str, start: StartEngine, ready: Prepared) -> BenchEngine:
        return BenchEngine(name, start, ready.variables, temperature=TEMPERATURE)


def main(path: Path, model: Path, drafter: Path, directory: Path) -> None:
    """Write the models and measure."""
    on_gpu = torch.cuda.is_available()
    statics = STATIC[:1]
    if on_gpu:
        write_missing(model, drafter, directory, Widening(), device="cuda")
        model, drafter = directory / MODEL, directory / DRAFTER
        free, _ = torch.cuda.mem_get_info()
        statics = STATIC[: max(1, free // ENGINE_BYTES - 2)]
    asyncio.run(measure(path, BenchTarget(model=model, drafter=drafter), directory, statics))


async def measure(path: Path, target: BenchTarget, scratch: Path, statics: Sequence[str]) -> None:
    """Measure all; write the figures after each step."""
    ready, found = await prepared(target, scratch), Figures()
    arms = tuple(arm.name for arm in profile_of(EngineConfig(), target.accelerator).arms)
    sides = Sides(ready, arms, statics)

    def keep(more: Figures) -> None:
        found.merge(more)
        found.notes["engines"] = "; ".join(f"{each.name} on {each.detail}" for each in sides.all)
        kept = {"figures": found.figures, "spread": found.spread, "notes": found.notes}
        path.write_text(json.dumps(kept, indent=1) + "\n")
        log(json.dumps(more.figures))

    async with started(*sides.all, shared=True):
        for batch, repeats in REPEATS.items():
            await sides.ours.force_arms("off")
            mine, other = await in_turn((sides.ours, sides.plain), batch, TOKENS, repeats)
            keep(_compared(f"off_vs_plain_bs{batch}", mine, other))
        for arm, theirs in sides.static.items():
            if arm not in arms:
                continue
            for batch in EAGLE_BATCHES:
                await sides.ours.force_arms(arm)
                mine, other = await in_turn((sides.ours, theirs), batch, TOKENS, REPEATS[batch])
                keep(_compared(f"{arm}_vs_eagle_bs{batch}", mine, other))
        keep(await _traces(sides))
        keep(await measure_batches(sides.ours, arms, BATCHES))
        keep(await _capture(sides.ours))


def _compared(name: str, mine: Sequence[Timing], other: Sequence[Timing]) -> Figures:
    """Compare speeds, times of a round and accept lengths; above 1 is in our favour."""
    found = Figures()
    found.add(name, over([each.rate for each in mine], [each.rate for each in other]))
    found.add(f"{name}_round", over([each.round_s for each in other], [each.round_s for each in mine]))
    found.add(f"{name}_accept", over([each.accept_length for each in mine], [each.accept_length for each in other]))
    ours, theirs = (median(1000 * each.round_s for each in side) for side in (mine, other))
    low, high = interval(over([each.rate for each in mine], [each.rate for each in other]))
    found.notes[name] = f"95 % {low:.3f} to {high:.3f}; a round takes {ours:.2f} and {theirs:.2f} ms"
    return found


async def _traces(sides: Sides) -> Figures:
    """
    Compare the time of whole traces.

    SGLang without speculation comes first: its responses end by themselves, and the others' have the same lengths. The
    suite's engine with speculation off comes last, since its responses could be retrieved.
    """
    seconds: dict[str, list[float]] = {}
    lengths: list[int] = []
    for repeat in range(TRACES + 1):
        prompts = sides.ours.task.hard(RUNNING, seed=50_000 + repeat)
        first = await sides.plain.generate(Generate(prompts=prompts, max_new_tokens=(LONGEST,) * RUNNING, ends=True))
        again = Generate(prompts=prompts, max_new_tokens=first.tokens, is_planned=True)
        took = {"plain": first.seconds}
        for name in rotated((*sides.static, "bandit"), repeat):
            if name == "bandit":
                await sides.ours.force_arms()
            engine = sides.ours if name == "bandit" else sides.static[name]
            took[name] = (await engine.generate(again)).seconds
        await sides.ours.force_arms("off")
        took["off"] = (await sides.ours.generate(again)).seconds
        log(f"trace {repeat}: {json.dumps(took)}")
        if repeat:  # the first warms up
            lengths += first.tokens
            for name, each in took.items():
                seconds.setdefault(name, []).append(each)
    return _judged(seconds, lengths)


def _judged(seconds: Mapping[str, Sequence[float]], lengths: Sequence[int]) -> Figures:
    """Return the figures of traces, from the seconds of each side."""
    found, bandit = Figures(), seconds["bandit"]
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


async def _capture(ours: BenchEngine) -> Figures:
    """Compare off with hidden states captured to off without, at batch 8."""
    await ours.force_arms("off")
    rates: dict[bool, list[float]] = {True: [], False: []}
    for repeat in range(7):
        for enabled in rotated((True, False), repeat):
            await ours.set_capture(enabled=enabled)
            prompts = ours.task.hard(8, seed=90_000 + 2 * repeat + enabled)
            timing = await ours.generate(Generate(prompts=prompts, max_new_tokens=(TOKENS,) * 8))
            if repeat:
                rates[enabled].append(timing.rate)
    found = Figures()
    found.add("capture_vs_off_bs8", over(rates[True], rates[False]))
    return found


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:5]))
