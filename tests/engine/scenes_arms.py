"""Arms of every kind in one engine, changing every round."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import models  # type: ignore[import-not-found] # beside this script
import scenes  # type: ignore[import-not-found] # beside this script

from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.strategy import arm_named
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

NAMES = ("off", "chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4")
ARMS = tuple(arm_named(name) for name in NAMES)
CYCLE = ("off", "chain-3", "tree-3x4-8", "chain-7-top1", "off", "off", "tree-2x2-4", "chain-7", "tree-1x4-4", "chain-3")


async def mixed(work: Path) -> dict[str, Any]:
    """Greedy answers under each arm and under all of them in turn, with requests that come, go and are aborted."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    options = EngineOptions(
        model=target, drafter=drafter, dtype="float32", max_running=8, context_length=512, seed=1, arms=ARMS
    )
    outcome: dict[str, Any] = {}
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
    return outcome


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
