"""What an engine reports of the cost of its rounds and prefills."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from tests.engine import models
from tests.engine.scenes.engine import answer, prompt
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

PROMPT_TOKENS = 40
NEW_TOKENS = 120
POOL_TOKENS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class CostResult:
    """Reports by the number of requests that ran."""

    kv_tokens: int
    alone: list[RoundReport]
    four: list[RoundReport]


async def costs(work: Path) -> CostResult:
    """Answer one request, and then four at once."""
    target = models.write_target(work / "target")
    config = EngineConfig(
        dtype="float32", max_running=8, context_length=256, arms=("off", "ngram-4"), max_total_tokens=POOL_TOKENS
    )
    async with aclosing(SglangEngine(target, config, Experiment(seed=1))) as engine:
        info = await engine.start()
        engine.force_arms("off")
        alone = await _reported(engine, 1)
        return CostResult(kv_tokens=info.kv_tokens, alone=alone, four=await _reported(engine, 4))


async def _reported(engine: SglangEngine, count: int) -> list[RoundReport]:
    found, source = list[RoundReport](), engine.reports()
    prompts = [
        prompt(f"{count}/{i}", tuple(3 + (i + n) % 12 for n in range(PROMPT_TOKENS)), max_new_tokens=NEW_TOKENS)
        for i in range(count)
    ]
    await asyncio.gather(*(answer(engine, one) for one in prompts))
    await asyncio.sleep(0.6)  # a round this late reports all earlier ones
    await answer(engine, prompt(f"last/{count}", (1, 2), max_new_tokens=3))
    while True:
        try:
            async with asyncio.timeout(1.0):
                found.append(await anext(source))
        except TimeoutError:
            return found
