"""Two tensor-parallel ranks."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tests.engine import models
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig

TURNS = {
    "off": ["off"], "chain-7": ["chain-7"], "tree-3x4-8": ["tree-3x4-8"], "ngram-4": ["ngram-4"], "bandit": [],
    "turns": ["off", "chain-7", "ngram-4", "tree-3x4-8", "chain-3"],
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksResult:
    """Answers of an engine over two ranks."""

    process_count: int
    greedy: dict[str, list[TokenChunk]]
    """By turn, a key of `TURNS`."""
    sampled: TokenChunk


async def ranks(work: Path) -> RanksResult:
    """Single arms, arms chosen by the bandit, and arms forced in turn during a response."""
    target = models.write_target(work / "target")
    drafter = models.write_drafter(work / "drafter", target, noise=0.05)
    config = EngineConfig(
        drafter=drafter, dtype="float32", max_running=8, context_length=256, tensor_parallel=2,
        arms=("off", "chain-3", "chain-7", "tree-3x4-8", "ngram-4"),
    )  # fmt: skip
    greedy = {}
    async with running(target, config) as engine:
        process_count = len(engine.child_pids)
        for turn, names in TURNS.items():
            engine.force_arms(*names)
            prompts = [prompt(f"{turn}-{n}", (3 + n, 7, 5), max_new_tokens=120, temperature=0.0) for n in range(4)]
            greedy[turn] = await asyncio.gather(*(answer(engine, each) for each in prompts))
        sampled = await answer(engine, prompt("sampled", max_new_tokens=60))
    return RanksResult(process_count=process_count, greedy=greedy, sampled=sampled)
