"""Arms of every kind in one engine, changing every round."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import models  # type: ignore[import-not-found] # beside this script
import scenes  # type: ignore[import-not-found] # beside this script

from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.strategy import arm_named
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine import sglang
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

NAMES = (
    "off", "chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4", "ngram-4",
)  # fmt: skip
ARMS = tuple(arm_named(name) for name in NAMES)
CYCLE = (
    "off", "chain-3", "tree-3x4-8", "chain-7-top1", "off", "ngram-4", "off", "tree-2x2-4", "ngram-4", "chain-7",
    "tree-1x4-4", "chain-3",
)  # fmt: skip


async def mixed(work: Path) -> dict[str, Any]:
    """Greedy answers under each arm and under all of them in turn, with requests that come, go and are aborted."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    # Noise enough for what the drafter attends to to matter.
    drafter = models.write_drafter(work / "drafter", target, noise=0.05)
    options = EngineOptions(
        model=target, drafter=drafter, dtype="float32", max_running=8, context_length=512, seed=1, arms=ARMS
    )
    outcome: dict[str, Any] = {}
    _chunk_prompts(16)
    async with scenes.engine(options) as made:
        prompts = [
            scenes.prompt(f"p{i}", tuple(range(3 + i, 12 + 2 * i)), temperature=0.0, max_new_tokens=40 + 20 * i)
            for i in range(6)
        ]
        for name in NAMES:
            made.force_arms(name)
            outcome[name] = await _together(made, name, prompts)
        made.force_arms(*CYCLE)
        outcome["cycle"] = await _together(made, "cycle", prompts)
        outcome["aborts"] = await _with_aborts(made, prompts)
        outcome |= await scenes.sampled_with_capture(made, target)
        made.set_capture(CapturePolicy(enabled=False))
        outcome["after_off"] = await _again(made, target, "off")
        outcome["after_retrieval"] = await _again(made, target, "ngram-4")
        outcome["to_the_end"] = await _to_the_end(made)
    return outcome


async def _again(made: SglangEngine, target: Path, skipping: str) -> dict[str, Any]:
    """
    A prompt that finds an answer of rounds without the drafter in the prefix cache; the same with an empty cache.

    The drafter has seen nothing of the answer. If what was kept for it completes its cache, both take as many rounds.
    """
    await _reports(made)
    made.force_arms(skipping)
    ids = tuple(range(30 - len(skipping), 60 - len(skipping)))  # another prompt each time: the cache knows the last
    first = scenes.prompt(f"first/{skipping}", ids, temperature=0.0, max_new_tokens=150)
    said = await scenes.answer(made, first)
    meanwhile = await _reports(made)
    await scenes.answer(made, scenes.prompt(f"short/{skipping}", (1, 2), temperature=0.0, max_new_tokens=3))
    meanwhile += await _reports(made)  # a round that comes so late reports all before it
    longer = (*first.token_ids, *said.token_ids)
    made.force_arms("chain-7")
    found = await scenes.answer(made, scenes.prompt(f"found/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    reports = [*meanwhile, *await _reports(made)]
    await made.load_weights(target, PolicyVersion(1))  # empties the cache
    afresh = await scenes.answer(made, scenes.prompt(f"afresh/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    return {
        "found": found,
        "afresh": afresh,
        "accepted": said.stats.accepted_draft_tokens if said.stats else 0,
        "kept_up_tokens": sum(report.caught_up_tokens for report in meanwhile),
        "recomputed_tokens": sum(report.recomputed_tokens for report in reports),
        "caught_up_tokens": sum(report.caught_up_tokens for report in reports),
    }


async def _to_the_end(made: SglangEngine) -> dict[str, TokenChunk]:
    """Answers that fill the context, by arms."""
    told = {}
    for name in ("off", "chain-7", "tree-3x4-8"):
        made.force_arms(name)
        prompt = scenes.prompt(f"full/{name}", tuple(3 + i % 50 for i in range(440)), temperature=0.0)
        told[name] = await scenes.answer(made, prompt.for_model(vocab_size=64, context_length=512))
    return told


async def _reports(made: SglangEngine) -> list[RoundReport]:
    """What the engine reports until it falls silent."""
    found, source = [], made.reports()
    while True:
        try:
            async with asyncio.timeout(1.0):
                found.append(await anext(source))
        except TimeoutError:
            return found


def _chunk_prompts(tokens: int) -> None:
    """Let prompts of the next engine of this process be computed in chunks."""
    launching: Any = sglang
    usual = launching.server_arguments
    launching.server_arguments = lambda *given: usual(*given) | {"chunked_prefill_size": tokens}


async def _together(made: SglangEngine, label: str, prompts: list[Prompt]) -> list[TokenChunk]:
    """All prompts, begun one after the other while the earlier ones run."""
    running = []
    for one in prompts:
        named = replace(one, request_id=type(one.request_id)(f"{label}/{one.request_id}"))
        running.append(asyncio.create_task(scenes.answer(made, named)))
        await asyncio.sleep(0.01)
    return list(await asyncio.gather(*running))


async def _with_aborts(made: SglangEngine, prompts: list[Prompt]) -> list[TokenChunk]:
    """The same while other requests are cut short among them."""

    async def cut(index: int) -> None:
        doomed = scenes.prompt(f"doomed{index}", tuple(range(5, 25 + index)), max_new_tokens=300)
        async for chunk in made.generate(doomed):
            if chunk.token_ids:
                await asyncio.sleep(0.01 * index)
                return

    answers = asyncio.create_task(_together(made, "aborts", prompts))
    await asyncio.gather(*(cut(index) for index in range(4)))
    return await answers
