"""An engine that compiles at first use what engines on GPUs compile, and warms up before it is ready."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.models import write_target
from tests.engine.scenes.engine import answer, prompt
from tlt_common.domain.prompt import LogprobKind, Prompt
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

ARMS = ("off", "chain-3", "tree-2x2-4", "ngram-4")
EVERYTHING: dict[str, Any] = {
    "seed": 5,
    "top_p": 0.95,
    "top_k": 9,
    "min_p": 0.01,
    "presence_penalty": 0.4,
    "min_new_tokens": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmingResult:
    """What was compiled, and when."""

    compiled_before: int
    """Functions compiled until the engine was ready."""
    compiled_after: int
    """And by requests of all kinds afterwards."""
    rounds: int
    """Since then."""
    drafter_over_plan: float
    """Bytes of the drafter while the KV cache was sized, as a share of those planned."""


def requests(name: str) -> list[Prompt]:
    """Return requests that differ from those of a warm-up."""
    raw, cut = LogprobKind.RAW, LogprobKind.TRUNCATED
    return [
        prompt(f"{name}-plain", max_new_tokens=9),
        prompt(f"{name}-greedy", (4, 5, 6) * 9, temperature=0.0, max_new_tokens=11),
        prompt(f"{name}-all", max_new_tokens=8, **EVERYTHING),
        prompt(f"{name}-raw", max_new_tokens=8, logprobs=raw, repetition_penalty=1.3),
        prompt(f"{name}-cut", max_new_tokens=8, logprobs=cut, top_p=0.5),
        prompt(f"{name}-seed", max_new_tokens=8, seed=9),
        prompt(f"{name}-hot", max_new_tokens=8, temperature=1.7, min_p=0.1),
    ]


async def compiled(work: Path) -> WarmingResult:
    """Start an engine, then send requests of all kinds."""
    model = write_target(work / "target")
    config = EngineConfig(arms=ARMS, max_running=8, context_length=128, dtype="float32", stall_s=None)
    engine = SglangEngine(model, config, Experiment(compiles=True))
    try:
        info = await engine.start()
        pulse = engine._need_link().pulse
        before, warmed = pulse.compiled, pulse.rounds
        for arm in ARMS:
            engine.force_arms(arm)
            for count in (1, 7):
                prompts = requests(f"{arm}-{count}")
                for first in range(0, len(prompts), count):
                    await asyncio.gather(*(answer(engine, each) for each in prompts[first : first + count]))
        after = pulse.compiled - before
        rounds, drafter_bytes = pulse.rounds - warmed, info.drafter_bytes
    finally:
        await engine.aclose()
    planned = ModelShape.from_config(read_config(model), dtype="float32").drafter.parameters * 4
    return WarmingResult(
        compiled_before=before,
        compiled_after=after,
        rounds=rounds,
        drafter_over_plan=drafter_bytes / planned,
    )
