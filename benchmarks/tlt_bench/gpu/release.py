"""
An engine releases its GPU's memory and resumes correctly: `python -m tlt_bench.gpu.release FILE MODEL DRAFTER`.

Greedy responses under a chain, and their accepted drafts, are the same before and after a release. Even with random
weights, corrupt drafter weights would change the accepted drafts, and corrupt policy weights the tokens.
"""

import asyncio
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig

RESPONSES, TOKENS, CONTEXT = 8, 200, 4096
ARMS = ("off", "chain-3", "ngram-5")
LEAST_RELEASED = 0.9
"""Share of the memory that the engine used which must be free while it is released; graphs of arms stay."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """Responses, and the drafts accepted in them."""

    tokens: tuple[tuple[int, ...], ...]
    accepted: int


async def _run(model: Path, drafter: Path) -> dict[str, float]:
    before = _free()
    config = EngineConfig(arms=ARMS, drafter=drafter, max_running=RESPONSES, context_length=CONTEXT, releasable=True)
    engine = SglangEngine(model, config)
    try:
        await engine.start()
        engine.force_arms("chain-3")
        first, used = await _speak(engine, "first"), before - _free()
        await engine.release_memory(MEMORY_TAGS)
        released = used - (before - _free())
        await engine.resume_memory(MEMORY_TAGS)
        second = await _speak(engine, "second")
    finally:
        await engine.aclose()
    return {
        "released_share": released / used,
        "released_gib": released / 2**30,
        "same_responses": sum(one == other for one, other in zip(first.tokens, second.tokens, strict=True)),
        "accepted_before": first.accepted,
        "accepted_after": second.accepted,
    }


async def _speak(engine: SglangEngine, name: str) -> Spoken:
    sampling = SamplingParams(max_new_tokens=TOKENS, ignore_eos=True, temperature=0.0)

    async def one(place: int) -> tuple[tuple[int, ...], int]:
        prompt = Prompt(request_id=RequestId(f"{name}{place}/0"), token_ids=(7 + place, 5, 3), sampling=sampling)
        chunks = [chunk async for chunk in engine.generate(prompt)]
        stats = chunks[-1].stats
        return tuple(
            token for chunk in chunks for token in chunk.token_ids
        ), stats.accepted_draft_tokens if stats else 0

    answers = [await one(place) for place in range(RESPONSES)]  # one by one: the batch's shape changes rounding
    return Spoken(tuple(tokens for tokens, _ in answers), sum(accepted for _, accepted in answers))


def _free() -> int:
    return torch.cuda.mem_get_info()[0]


def main(path: Path, model: Path, drafter: Path) -> None:
    """Measure and judge."""
    figures = asyncio.run(_run(model, drafter))
    path.write_text(json.dumps({"figures": figures}) + "\n")
    if figures["same_responses"] < RESPONSES or figures["accepted_before"] != figures["accepted_after"]:
        sys.exit(f"after a release the engine responds differently: {figures}")
    if figures["released_share"] < LEAST_RELEASED:
        sys.exit(f"released {figures['released_share']:.2f} of the memory; at least {LEAST_RELEASED} is expected")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
