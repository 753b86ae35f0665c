"""`tlt bench weights --release`: memory that a release frees, and the drafter's accept length after it."""

import asyncio
import statistics
import tempfile
from pathlib import Path

import psutil

from tlt_bench.engines.bench_engine import log
from tlt_bench.engines.prepare import SHALLOW, BenchTarget, prepared
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_bench.weights.engine_worker import ARM, engine_client, releasable_bytes
from tlt_bench.workload import Prompts
from tlt_common.client import Client, SamplingParams

COUNT = 8
"""Problems."""
GREEDY = SamplingParams(temperature=0.0, max_new_tokens=96, ignore_eos=True)
CYCLES = 20
"""Cycles of release, update, resume and rollouts."""


def measure() -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(Path(scratch)))
    return Result(
        name="weights_release",
        figures=found.figures,
        spread=found.spread,
        repeats=CYCLES,
        notes={
            "released_vs_planned": "bytes by which the resident memory of the worker's processes falls with a release "
            "of everything, divided by the plan's weights, packed weights, drafter and KV cache",
            "accept_after_vs_before": "tokens per request and round in a cycle's rollouts, divided by those before the "
            "first cycle; each releases, resumes the weights, publishes the same weights as a new version, and resumes "
            "the rest",
            "workload": f"{COUNT} problems, {GREEDY.max_new_tokens} greedy tokens each, {ARM} in every round",
        },
    )


async def _measure(scratch: Path) -> Figures:
    found = Figures()
    ready = await prepared(BenchTarget(model=SHALLOW), scratch)
    assert ready.drafter is not None  # noqa: S101 - the demo's has one
    prompts = ready.task.hard(COUNT, seed=5)
    planned = releasable_bytes(ready.model, ready.drafter)
    released, kept, lengths = list[float](), list[float](), list[float]()
    async with engine_client(ready.model, scratch / "run", drafter=ready.drafter) as client:
        before = await _accept_length(client, prompts, 0)
        for version in range(1, CYCLES + 1):
            for move in (client.release, client.resume):
                await move(["cuda_graph"])  # a CPU has none; but allocators return what they kept of earlier rounds
            held = _resident()
            await client.release()
            released.append((held - _resident()) / planned)
            await client.resume(["weights"])
            await client.publish_weights(version, ready.model)
            await client.resume()
            lengths.append(await _accept_length(client, prompts, version))
            kept.append(lengths[-1] / before)
            log(f"cycle {version}: released {released[-1]:.3f} of the plan, accept length {lengths[-1]:.4f}")
    found.add("released_vs_planned", released)
    found.add("accept_after_vs_before", kept)
    found.figures |= {
        "accept_length": before,
        "accept_length_after": statistics.fmean(lengths),
        "planned_mib": planned / 2**20,
        "cycles": float(CYCLES),
    }
    return found


async def _accept_length(client: Client, prompts: Prompts, version: int) -> float:
    """Return tokens per request and round of rollouts under a version of the weights."""
    responses = [response for (response,) in await client.batch(prompts, 1, GREEDY, policy_version=version)]
    stats = [response.stats for response in responses if response.stats is not None]
    return sum(each.completion_tokens for each in stats) / sum(each.rounds for each in stats)


def _resident() -> int:
    """Return the resident memory of the worker's processes, which are children of this one."""
    return sum(int(child.memory_info().rss) for child in psutil.Process().children(recursive=True))
