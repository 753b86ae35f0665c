"""
The same on real engines: four of the demo, behind one gateway that moves requests in the tail and one that does not.

Both gateways send to the same engines, and a step is rolled out through each in turn, with the same prompts and seeds.
N-gram arms are left out: they would find the first side's responses when the second one generates them again.

Lending is on, so that requests move, but no worker is lent: engines and trainers of one machine share its cores, so
trainers of freed workers would slow down the side with more of them.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import typer

from countdown.coordinator import fleet_at
from countdown.job import demo
from countdown.run import Observer, suite
from countdown.settings import DRAFTER, DemoSettings
from tlt_bench.ratios import Figures, interval, over
from tlt_bench.result import Result
from tlt_bench.scratch import scratch
from tlt_bench.workload import Prompts, mixed_prompts
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.fleet import WorkerState
from tlt_common.journal.gateway_lines import MovesLine, TailLine
from tlt_common.journal.reader import journals_in
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live
from tlt_local.interrupt import run as run_until_signalled
from tlt_local.stack import Stack

PROMPTS, SAMPLES, CAP = 12, 4, 768
WORKERS = 4
LEARNED, PAIRS, QUICK_PAIRS = 2, 10, 3
"""Pairs that gateways only learn lengths and costs from, and those that are compared."""
NEVER_S = 86_400
ARMS = "off,chain-3,chain-7"
MOVING, STILL = "moving", "still"


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep:
    """A step as it was rolled out through one gateway."""

    seconds: float
    freed_share: float
    """Share of the workers' time in which they ran no request."""
    token_ids: tuple[tuple[int, ...], ...]


def measure(*, quick: bool, observer: Observer) -> Result:
    """
    Roll out pairs of steps.

    Raises:
        TltError: A part of the suite failed.
    """
    pairs = list[dict[str, EngineStep]]()
    with scratch() as directory:
        journal = directory / "journal"

        async def body() -> None:
            pairs.extend([pair async for pair in _pairs(QUICK_PAIRS if quick else PAIRS, directory, journal, observer)])

        if signal_number := run_until_signalled(body):
            raise typer.Exit(128 + signal_number)
        lines = [line for reader in journals_in(journal) for line in reader.lines()]
    tails = [line for line in lines if isinstance(line, TailLine)]
    moved = sum(len(line.moves) for line in lines if isinstance(line, MovesLine))
    return _result(pairs, tails, moved / (len(pairs) + LEARNED))


async def _pairs(
    count: int, directory: Path, journal: Path, observer: Observer
) -> AsyncIterator[dict[str, EngineStep]]:
    settings = DemoSettings(cap_tokens=CAP, drafter=str(DRAFTER), workers=WORKERS)
    config = await suite(demo(settings), directory, journal)
    worker = {**config.settings["worker"], "engine.arms": ARMS}
    coordinator = {**config.settings["coordinator"], "spot.settle_s": str(NEVER_S)}
    settings_of = {**config.settings, "worker": worker, "coordinator": coordinator}
    config = config.model_copy(update={"settings": settings_of})
    async with (
        Stack(config, say=observer.on_stage) as stack,
        _still(stack.coordinator) as still,
        Client(stack.endpoint) as moving_client,
        Client(still) as still_client,
    ):
        await still_client.wait_ready(60, workers=WORKERS)
        sides = {MOVING: moving_client, STILL: still_client}
        for number in range(LEARNED + count):
            prompts, pair = mixed_prompts(PROMPTS, seed=number), dict[str, EngineStep]()
            for side in (MOVING, STILL) if number % 2 else (STILL, MOVING):
                pair[side] = await _rolled_out(sides[side], stack.coordinator, prompts, seed=number)
            seconds = f"{pair[MOVING].seconds:.1f} s with moves, {pair[STILL].seconds:.1f} s without"
            observer.on_stage(f"step {number + 1} of {LEARNED + count}: {seconds}")
            if number >= LEARNED:
                yield pair


@asynccontextmanager
async def _still(coordinator: str) -> AsyncIterator[str]:
    """Run a gateway that moves nothing; yield its address."""
    config = GatewayConfig(listen="127.0.0.1:0", coordinator=coordinator, gateway_id=STILL, tail_running=0)
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(live(config, on_serving=address.set_result))
        yield await address
        serving.cancel()


async def _rolled_out(client: Client, coordinator: str, prompts: Prompts, *, seed: int) -> EngineStep:
    before_s, began_s = await _rollout_s(coordinator), time.perf_counter()
    found = await client.batch(prompts, SAMPLES, SamplingParams(max_new_tokens=CAP, seed=seed))
    seconds = time.perf_counter() - began_s
    busy_s = await _rollout_s(coordinator) - before_s
    return EngineStep(
        seconds=seconds,
        freed_share=1.0 - busy_s / (seconds * WORKERS),
        token_ids=tuple(response.token_ids for group in found for response in group),
    )


async def _rollout_s(coordinator: str) -> float:
    """Return the device-seconds in which workers have run requests."""
    return sum(account.seconds.get(WorkerState.ROLLOUT, 0.0) for account in (await fleet_at(coordinator)).workers)


def _result(pairs: Sequence[dict[str, EngineStep]], tails: Sequence[TailLine], moved: float) -> Result:
    found = Figures()
    ratios = over([pair[MOVING].seconds for pair in pairs], [pair[STILL].seconds for pair in pairs])
    found.add("tail_ratio", [fmean(ratios)], "mean of whole steps, with moves ÷ without; spread: of single steps")
    found.spread["tail_ratio"] = (min(ratios), max(ratios))
    found.add("tail_ratio_median", ratios)
    found.spread["tail_ratio_median"] = interval(ratios)
    found.add("freed_share", [fmean(pair[MOVING].freed_share for pair in pairs)], "of the workers' time, no request")
    found.add("off_freed_share", [fmean(pair[STILL].freed_share for pair in pairs)])
    found.add("moves", [moved], "per step")
    same = [one == other for pair in pairs for one, other in zip(*(of.token_ids for of in pair.values()), strict=True)]
    found.add("identical_responses", [fmean(same)], "share that is the same token for token on both sides")
    if tails:
        errors = [line.actual_s / line.foretold_s - 1.0 for line in tails if line.foretold_s > 0.0]
        found.add("tail_error", errors, "how much longer tails took than foretold, as a share")
    return Result(
        name="consolidate_engines",
        figures=found.figures,
        spread=found.spread,
        repeats=len(pairs),
        notes=found.notes,
    )
