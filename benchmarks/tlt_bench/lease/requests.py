"""Time to first token of a request to the only worker while it trains, compared to an idle one."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

from countdown.coordinator import fleet_at, lend
from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import NO_DRAFTER, BenchTarget, prepared
from tlt_bench.lease.percentiles import SHARES, add_percentiles
from tlt_bench.ratios import Figures
from tlt_common.client import Client, SamplingParams
from tlt_common.domain.fleet import FREE, WorkerState
from tlt_local.configuration.config import StackConfig
from tlt_local.stack import Stack

PROMPTS = 24
SAMPLES = 4
"""Responses that the trainer learns from."""
LONGEST_PAUSE_S = 1.5
"""A request comes this long after the worker began to train, or to idle, at most: also while the trainer scores."""
STATE_S = 60.0
LOOK_S = 0.05
SIDES = {"training": True, "idle": False}
"""Whether lending is enabled on each."""
LEARNED = SamplingParams(max_new_tokens=256)
SHORT = SamplingParams(max_new_tokens=4)


def measure(*, repeats: int, model: Path | None = None, seed: int = 0) -> Figures:
    """
    Return the times to first token in milliseconds, and the delay added by training.

    Raises:
        ConfigError: The model has not been fetched, or is not a checkpoint.
    """
    target = BenchTarget(model=model, drafter=NO_DRAFTER)
    return figures_of(asyncio.run(_measure(target, repeats, random.Random(seed))))


def figures_of(waits: dict[str, list[float]]) -> Figures:
    """Return the figures."""
    found = Figures()
    for side, values in waits.items():
        add_percentiles(found, f"first_token_ms_{side}", values)
    for share in SHARES:
        found.figures[f"preempt_added_ms_p{share}"] = (
            found.figures[f"first_token_ms_training_p{share}"] - found.figures[f"first_token_ms_idle_p{share}"]
        )
    found.notes["preempt_added_ms_p99"] = f"{len(waits['training'])} requests on each side"
    return found


async def _measure(target: BenchTarget, repeats: int, rng: random.Random) -> dict[str, list[float]]:
    waits: dict[str, list[float]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        ready = await prepared(target, Path(scratch))
        prompts = ready.task.mixed(PROMPTS, seed=rng.randrange(1000))
        config = StackConfig(model=ready.model, workers=1)
        async with Stack(config, say=log) as stack, Client(stack.endpoint) as client:
            await client.batch(prompts, samples=SAMPLES, sampling=LEARNED)
            for repeat in range(repeats + 1):
                for side in rng.sample(list(SIDES), len(SIDES)):
                    wait_ms = 1000 * await _first_token_s(stack.coordinator, client, side, rng.choice(prompts), rng)
                    if repeat:  # the first is slow for whoever goes first
                        waits[side].append(wait_ms)
                if repeat % 10 == 0:
                    log(f"  repeat {repeat} of {repeats}")
    return waits


async def _first_token_s(
    coordinator: str, client: Client, side: str, prompt: tuple[int, ...], rng: random.Random
) -> float:
    await lend(coordinator, enabled=SIDES[side])
    wanted = {WorkerState.TRAINING} if SIDES[side] else FREE
    async with asyncio.timeout(STATE_S):
        while (await fleet_at(coordinator)).workers[0].status.state not in wanted:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)
    await asyncio.sleep(rng.uniform(0, LONGEST_PAUSE_S))
    began_s, first_s = time.monotonic(), 0.0
    async for _ in client.stream(prompt, SHORT):
        first_s = first_s or time.monotonic() - began_s
    return first_s
