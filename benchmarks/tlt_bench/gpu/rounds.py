"""
Activity of a round on this machine's device, from the profiler: `python -m tlt_bench.gpu.rounds FILE MODEL DRAFTER`.

Kernels on the device, launches and waits of the host, host time and the device's share of the time, under off, a chain,
and a chain that is switched on after every few rounds of off; beside SGLang without speculation.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Final

from tlt_bench.engines.bench_engine import BenchEngine, started
from tlt_bench.engines.commands import Generate, Profile, StartEngine
from tlt_bench.engines.prepare import BenchTarget, prepared
from tlt_bench.workload import hard_prompts

CHAIN: Final = "chain-7"
CASES: Final = {"off": ("off",), "chain": (CHAIN,), "switch": ("off", "off", "off", CHAIN)}
"""Arms in turn by name of the case."""
TOKENS: Final = 400
ROUNDS: Final = 24
SIMULATED: Final = 3.0
CONTEXT: Final = 1024


def main(path: Path, model: Path, drafter: Path) -> None:
    """Profile both engines."""
    with tempfile.TemporaryDirectory(prefix="tlt-bench-") as scratch:
        figures = asyncio.run(
            measure(BenchTarget(model=model, drafter=drafter, accept_length=SIMULATED), Path(scratch))
        )
    path.write_text(json.dumps({"figures": figures}) + "\n")


async def measure(target: BenchTarget, scratch: Path) -> dict[str, float]:
    """Return the figures at batch 1."""
    ready = await prepared(target, scratch)
    start = ready.start(("off", CHAIN), context_length=CONTEXT)
    stock = StartEngine(model=start.model, stock=True, engine=start.engine.model_copy(update={"drafter": None}))
    ours, plain = (BenchEngine(name, each, ready.variables) for name, each in (("ours", start), ("plain", stock)))
    command = Profile(responses=Generate(prompts=hard_prompts(1, seed=0), max_new_tokens=(TOKENS,)), rounds=ROUNDS)
    figures: dict[str, float] = {}
    async with started(ours, plain):
        for name, arms in CASES.items():
            await ours.force_arms(*arms)
            await ours.generate(command.responses)  # warms up
            figures |= await _profiled(ours, command, name)
        await plain.generate(command.responses)
        figures |= await _profiled(plain, command, "stock")
    figures["launches_off_over_stock"] = figures["launches_off"] - figures["launches_stock"]
    figures["host_off_over_stock"] = figures["host_ms_off"] / figures["host_ms_stock"]
    return figures


async def _profiled(engine: BenchEngine, command: Profile, name: str) -> dict[str, float]:
    found = await engine.profile(command)
    return {
        f"kernels_{name}": found.kernels,
        f"launches_{name}": found.launches,
        f"syncs_{name}": found.syncs,
        f"host_ms_{name}": found.host_ms,
        f"device_share_{name}": found.device_share,
    }


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
