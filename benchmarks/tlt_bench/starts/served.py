"""A successful start: seconds to the first token, and the engine's memory compared to its plan."""

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

import psutil

from tlt_bench.engines.bench_engine import BenchEngine, log, started
from tlt_bench.engines.commands import Generate
from tlt_bench.engines.prepare import SHALLOW, BenchTarget, Prepared, prepared
from tlt_bench.ratios import Figures
from tlt_bench.result import Result
from tlt_common.client import Client, SamplingParams
from tlt_worker.capacity.attention import Heads
from tlt_worker.capacity.cpu_plan import cpu_rows
from tlt_worker.capacity.engine_plan import plan_engine
from tlt_worker.capacity.memory.memory import cpu_memory_of, machine_memory
from tlt_worker.capacity.profile import profile_of
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.drafter_format import drafter_format
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.device import CPU
from tlt_worker.model.families import listed

STARTS = 3
START_S = 900.0
STOP_S = 60.0
MIB = 2**20

ARMS = ("off", "chain-7")
CONTEXT = 256
FILL_TOKENS = CONTEXT - 8
"""Tokens of a prompt that fills the cache."""
SCHEDULER = "sglang::scheduler"


def measure(target: BenchTarget) -> Result:
    """
    Run the benchmark and return its figures. Progress goes to stderr.

    Raises:
        ConfigError: The target has no drafter, which is part of the plan.
    """
    target.require_drafter("its memory plan")
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        found = asyncio.run(_measure(target, Path(scratch)))
    return found.result("starts_served", repeats=STARTS)


async def _measure(target: BenchTarget, scratch: Path) -> Figures:
    ready, found = await prepared(target, scratch), Figures()
    found.add(
        "first_token_s",
        [await _first_token_s(ready) for _ in range(STARTS)],
        "from the command `tlt up --workers 1` to the first token of a response",
    )
    base = await prepared(BenchTarget(device="cpu", model=SHALLOW), scratch)
    held, planned = [], []
    for name, side in (("the demo's policy", base), ("the model", ready)):
        held.append(await _held_bytes(name, side))
        planned.append(_planned_bytes(side))
        log(f"{name}: {held[-1] / MIB:.0f} MiB resident, {planned[-1] / MIB:.0f} MiB planned")
    found.add("memory_mib", [held[1] / MIB], "resident memory of the engine's scheduler process, its cache full")
    found.add(
        "planned_mib",
        [planned[1] / MIB],
        "weights, drafter, KV cache and the largest round, as `tlt engine plan` calculates them",
    )
    found.add(
        "memory_vs_plan",
        [(held[1] - held[0]) / (planned[1] - planned[0])],
        "what the process takes beyond one that serves the demo's small policy, divided by the same of the plans",
    )
    return found


async def _first_token_s(ready: Prepared) -> float:
    prompt, port = ready.task.hard(1, seed=0)[0], _free_ports()
    began_s = time.monotonic()
    with _up(ready.model, port):
        async with Client(f"127.0.0.1:{port}") as client:
            await client.wait_ready(START_S)
            await client.generate(prompt, SamplingParams(max_new_tokens=1))
            took_s = time.monotonic() - began_s
    log(f"first token after {took_s:.1f} s")
    return took_s


@contextmanager
def _up(model: Path, port: int) -> Iterator[None]:
    """Run `tlt up` with one worker within the block."""
    command = [sys.executable, "-m", "tlt_common.cli", "up", "--model", str(model), "--workers", "1"]
    process = subprocess.Popen([*command, "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)  # a job in the background ignores SIGINT, and so do its children
        process.wait(STOP_S)


def _free_ports() -> int:
    """Return the first of four consecutive free ports, for the suite's addresses."""
    while True:
        port = random.randrange(20_000, 60_000)
        try:
            for place in range(4):
                create_server(("127.0.0.1", port + place)).close()
        except OSError:
            continue
        return port


async def _held_bytes(name: str, ready: Prepared) -> int:
    """Return the resident memory of an engine's scheduler once its KV cache is full."""
    start = ready.start(ARMS, context_length=CONTEXT)
    engine = BenchEngine(name, start, ready.variables)
    async with started(engine):
        await engine.force_arms(*ARMS)
        count = start.engine.max_running
        for turn in range(2):  # prompts of a turn are evicted by those of the next
            chance = random.Random(turn)
            prompts = tuple(tuple(chance.randrange(3, 150) for _ in range(FILL_TOKENS)) for _ in range(count))
            await engine.generate(Generate(prompts=prompts, max_new_tokens=(CONTEXT - FILL_TOKENS,) * count))
        return sum(
            int(child.memory_info().rss)
            for child in psutil.Process(engine.pid).children(recursive=True)
            if SCHEDULER in " ".join(child.cmdline())
        )


def _planned_bytes(ready: Prepared) -> int:
    engine, model = ready.start(ARMS, context_length=CONTEXT).engine, read_config(ready.model)
    form = drafter_format(engine, model)
    profile = profile_of(engine, CPU.accelerator, family=listed(model), heads=Heads.from_config(model), drafter=form)
    shape = ModelShape.from_config(model, dtype=profile.dtype, drafter=form)
    memory = cpu_memory_of(machine_memory(), ranks=engine.tensor_parallel)
    plan = plan_engine(engine, profile=profile, shape=shape, memory=memory, context_length=CONTEXT)
    return sum(row.bytes for row in cpu_rows(engine, shape, plan, context_length=CONTEXT))
