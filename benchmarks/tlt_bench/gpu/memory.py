"""
An engine fills its GPU as planned: `python -m tlt_bench.gpu.memory FILE MODEL DRAFTER`.

Starts the default arms beside the share of a spot trainer, writes held ÷ planned bytes by row of the plan, and runs
prompts as long as the context, in batches up to the largest: an engine that runs out of memory fails the part.
"""

import asyncio
import json
import sys
from pathlib import Path

from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_worker.engine.base import EngineInfo
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig

BATCHES = (1, 4, 16, 64)
CONTEXT = 8192
NEW_TOKENS = 64
VOCABULARY = 100_000
"""Token ids of prompts; every shape has more."""
WITHIN = 0.1
"""Accepted deviation of a row from its plan."""


async def _run(model: Path, drafter: Path) -> EngineInfo:
    config = EngineConfig(max_running=max(BATCHES), context_length=CONTEXT, drafter=drafter)
    engine = SglangEngine(model, config, trains=True)
    try:
        info = await engine.start()
        for batch in BATCHES:
            await asyncio.gather(*(_response(engine, f"{batch}-{place}/0", place) for place in range(batch)))
    finally:
        await engine.aclose()
    return info


async def _response(engine: SglangEngine, name: str, place: int) -> None:
    # Unlike prompts: the same ones would share their cache.
    ids = tuple((7919 * (place + 1) + step) % VOCABULARY for step in range(CONTEXT // 2))
    sampling = SamplingParams(max_new_tokens=NEW_TOKENS, ignore_eos=True, top_p=0.9)
    async for _ in engine.generate(Prompt(request_id=RequestId(name), token_ids=ids, sampling=sampling)):
        pass


def main(path: Path, model: Path, drafter: Path) -> None:
    """Measure and compare."""
    info = asyncio.run(_run(model, drafter))
    ratios = {f"{name.replace(' ', '_').lower()}_over_plan": value for name, value in info.memory_over_plan.items()}
    path.write_text(json.dumps({"figures": {**ratios, "largest_batch": max(BATCHES)}}) + "\n")
    if wrong := {name: value for name, value in ratios.items() if abs(value - 1) > WITHIN}:
        sys.exit(f"not within {WITHIN:.0%} of the plan: {wrong}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
