"""Measures conversations on two workers, with and without sessions, in turns on the same suite."""

import asyncio
import time
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

from tlt_bench.engines.bench_engine import alternated, log
from tlt_bench.engines.prepare import NO_DRAFTER, BenchTarget, prepared
from tlt_bench.ratios import Figures, over
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_bench.turns.talk import Prefills, Shape, Talk, together
from tlt_common.client import Client
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

WORKERS, SESSIONS, MAX_RUNNING = 2, 6, 8
SIDES = ("with", "without")
"""Whether requests name their session. Those that do not are routed by load alone, since every prompt differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTurns:
    """Concurrent conversations and their measurements."""

    seconds: float
    prefills: Prefills

    @property
    def refilled_share(self) -> float:
        """Share of the tokens that a perfect cache would have that were prefilled again."""
        return self.prefills.refilled_tokens / self.prefills.earlier_tokens


def measure(*, repeats: int, shape: Shape, model: Path | None = None) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: The model has not been fetched, or is not a checkpoint.
    """
    target = BenchTarget(model=model, drafter=NO_DRAFTER)
    with scratch() as directory:
        found = asyncio.run(_measured(target, directory, repeats, shape))
    figures = Figures()
    seconds = {side: [one.seconds for one in found[side]] for side in SIDES}
    figures.add(
        "turns_speedup",
        over(seconds["without"], seconds["with"]),
        "seconds of all conversations, first turns included, without sessions / with",
    )
    for side, suffix in (("with", ""), ("without", "_without")):
        figures.add(f"refilled_share{suffix}", [one.refilled_share for one in found[side]])
        figures.add(f"seconds_{side}", seconds[side])
    figures.notes["refilled_share"] = "prompt tokens prefilled again / those that earlier turns had computed"
    figures.notes["conversations"] = (
        f"{SESSIONS} at a time on {WORKERS} workers with the real engine, {shape.turns} turns each: a prompt of "
        f"{shape.prompt} tokens, responses of {shape.response[0]} to {shape.response[1]}, and {shape.answer} of a tool "
        "that answers at once; the next turns of all are sent together, in the order in which the turns before ended"
    )
    return figures.result("turns", repeats=repeats)


async def _measured(target: BenchTarget, directory: Path, repeats: int, shape: Shape) -> dict[str, list[MeasuredTurns]]:
    async with Stack(await _suite(target, directory, shape), say=log) as stack, Client(stack.endpoint) as client:
        vocabulary = (await client.info()).vocab_size

        async def run(side: str, repeat: int, _: int) -> MeasuredTurns:
            batch = 2 * repeat + SIDES.index(side)
            one = await _conversations(client, shape, vocabulary, named=side == "with", batch=batch)
            log(f"{side}: {one.seconds:.2f} s, {one.refilled_share:.3f} prefilled again")
            return one

        return await alternated(SIDES, repeats, run)


async def _suite(target: BenchTarget, directory: Path, shape: Shape) -> StackConfig:
    ready = await prepared(target, directory)
    worker = {
        "engine.context_length": str(shape.longest + 1),
        "engine.max_running": str(MAX_RUNNING),
        "trainer.enabled": "false",
    }
    return StackConfig(model=ready.model, workers=WORKERS, cores_per_worker=1, settings={"worker": worker})


async def _conversations(client: Client, shape: Shape, vocabulary: int, *, named: bool, batch: int) -> MeasuredTurns:
    talks = [
        Talk(
            shape,
            seed=10_000 * (batch * SESSIONS + number),
            vocabulary=vocabulary,
            session=f"{batch}-{number}" if named else "",
        )
        for number in range(SESSIONS)
    ]
    began_s = time.monotonic()
    await together(client, talks, turns=shape.turns)
    return MeasuredTurns(seconds=time.monotonic() - began_s, prefills=reduce(add, (one.found for one in talks)))
