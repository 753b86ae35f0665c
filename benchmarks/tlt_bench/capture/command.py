"""`tlt bench capture`: the same engine with capture on and off, in turn, and SGLang's own return of states."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from tlt_bench import random_models
from tlt_bench.engines.bench_engine import SPEEDS, BenchEngine, alternated, log, started
from tlt_bench.engines.commands import Generate, Timing
from tlt_bench.engines.prepare import BenchTarget, Prepared, prepared
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.shapes import DRAFTER, MODEL, SHAPE

TOKENS = 64
REPEATS = {1: 8, 16: 4}
"""Pairs by batch size."""
COMPARED_BATCH = 16
"""Batch size at which both ways are compared."""
WIDE: Mapping[str, Any] = {
    **SHAPE,
    "vocab_size": 160,
    "hidden_size": 4096,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
}
"""States as large as those of Llama 3 8B, in a model with little else: what states cost is not lost in the noise."""
LEAST_SHARE = 0.001
"""Least cost of capture that counts in the comparison, as a share of decoding: less is noise, and may be negative."""


@dataclass(slots=True)
class Pairs:
    """Pairs of responses with and without states."""

    off: list[Timing] = field(default_factory=list)
    on: list[Timing] = field(default_factory=list)

    def added(self) -> list[float]:
        """Return the additional seconds per token with states, for each pair."""
        return [(on.seconds - off.seconds) / sum(on.tokens) for on, off in zip(self.on, self.off, strict=True)]

    def per_token(self) -> float:
        """Return the seconds per token without states."""
        return median(off.seconds / sum(off.tokens) for off in self.off)


def measure(target: BenchTarget) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(target, Path(scratch)))
    return found.result("capture", repeats=min(REPEATS.values()))


async def _measure(target: BenchTarget, scratch: Path) -> Figures:
    ready = await prepared(target, scratch)
    found = Figures()
    async with _engines(ready) as (ours, theirs):
        pairs = {batch: await _pairs(ours, batch, repeats) for batch, repeats in REPEATS.items()}
        returned = await _pairs(theirs, COMPARED_BATCH, REPEATS[COMPARED_BATCH])
        states = int(await ours.set_capture(enabled=False))
    for batch, each in pairs.items():
        for what, speed in SPEEDS.items():
            found.add(
                f"capture_on_vs_off{what}_bs{batch}", over(*(list(map(speed, side)) for side in (each.on, each.off)))
            )
    found.merge(compared(pairs[COMPARED_BATCH], returned))
    found.notes["captured_states"] = f"{states}, read by a sink like the worker's"
    if target.kind == "cpu" and target.model is None:
        found.merge(await _wide(ready, scratch / "wide"))
    return found


async def _wide(ready: Prepared, directory: Path) -> Figures:
    """Compare both ways for states as large as a 7B model's."""
    await asyncio.to_thread(random_models.write, directory, WIDE)
    wide = replace(ready, model=directory / MODEL, drafter=directory / DRAFTER)
    async with _engines(wide) as (ours, theirs):
        captured, returned = [
            await _pairs(engine, COMPARED_BATCH, REPEATS[COMPARED_BATCH]) for engine in (ours, theirs)
        ]
    return compared(captured, returned, suffix=f"_{WIDE['hidden_size']}")


@asynccontextmanager
async def _engines(ready: Prepared) -> AsyncIterator[tuple[BenchEngine, BenchEngine]]:
    """Run an engine of the suite, without speculation, and SGLang without TLT that returns states."""
    start = ready.start(("off",), context_length=ready.task.prompt_tokens + TOKENS)
    plain = start.model_copy(update={"stock": True, "returns_states": True})
    ours, theirs = (
        BenchEngine(name, each, ready.variables) for name, each in (("ours", start), ("stock SGLang", plain))
    )
    async with started(ours, theirs):
        await ours.force_arms("off")
        yield ours, theirs


def compared(captured: Pairs, returned: Pairs, *, suffix: str = "") -> Figures:
    """Return the added time per token of both ways, and their ratio; figure names end with the suffix."""
    found, least_s = Figures(), LEAST_SHARE * captured.per_token()
    ours_s, theirs_s = captured.added(), returned.added()
    found.add(f"capture_added_us_per_token{suffix}", [1e6 * each for each in ours_s])
    found.add(f"returned_added_us_per_token{suffix}", [1e6 * each for each in theirs_s])
    found.add(
        f"vs_return_hidden_states{suffix}",
        [each / max(least_s, median(ours_s)) for each in theirs_s],
        f"at batch {COMPARED_BATCH}; ours counts as at least {1e6 * least_s:.2f} us",
    )
    return found


async def _pairs(engine: BenchEngine, batch: int, repeats: int) -> Pairs:
    """Generate responses of equal length with and without states, in an order that changes with each pair."""
    log(f"{engine.name}, batch {batch}")

    async def generate(enabled: bool, repeat: int, _: int) -> Timing:
        await engine.set_capture(enabled=enabled)
        # Other prompts: a prompt in the prefix cache would not be computed.
        prompts = engine.task.hard(batch, seed=2 * repeat + enabled)
        return await engine.generate(Generate(prompts=prompts, max_new_tokens=(TOKENS,) * batch))

    found = await alternated((True, False), repeats, generate)
    return Pairs(on=found[True], off=found[False])
