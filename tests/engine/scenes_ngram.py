"""Retrieved drafts: alone in an engine, and beside a learned drafter that is always wrong."""

import asyncio
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import models  # type: ignore[import-not-found] # beside this script
import scenes  # type: ignore[import-not-found] # beside this script

from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.strategy import OFF, chain, ngram
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

GROUP = 8


async def alone(work: Path) -> dict[str, Any]:
    """An engine without a learned arm: greedy answers, and a group of one prompt twice."""
    target = models.write_target(work / "target")
    options = EngineOptions(
        model=target, dtype="float32", max_running=16, context_length=512, seed=1, arms=(OFF, ngram(5))
    )
    outcome: dict[str, Any] = {}
    async with scenes.engine(options) as made:
        reports: list[RoundReport] = []
        listening = asyncio.create_task(_listen(made, reports))
        asked = [scenes.prompt(f"p{i}", tuple(range(3, 6 + i)), temperature=0.0, max_new_tokens=150) for i in range(4)]
        for label, arms in (("off", ["off"]), ("ngram", ["ngram-5"]), ("cycle", ["off", "ngram-5"]), ("bandit", [])):
            made.force_arms(*arms)
            outcome[label] = await _together(made, label, asked)
        updating = asyncio.create_task(_together(made, "updated", asked))
        await asyncio.sleep(0.1)
        await made.load_weights(target, PolicyVersion(1))
        outcome["updated"] = await updating
        made.force_arms("ngram-5")
        group = [scenes.prompt(f"s{i}", (9, 3, 12, 5, 14), temperature=0.6, max_new_tokens=200) for i in range(GROUP)]
        for epoch in ("first", "second"):
            outcome[epoch] = await _together(made, epoch, group)
        outcome["index_bytes"] = (await _stop(listening, reports))[-1].index_bytes
    return outcome


async def beside(work: Path) -> dict[str, Any]:
    """Rounds by arm when the bandit chooses, without a drafter and with a wrong one; then turns with a good one."""
    target = models.write_target(work / "target")
    wrong = models.write_drafter(work / "wrong", target, noise=0.02, gain=-1.0)
    good = models.write_drafter(work / "good", target, noise=0.02)
    options = EngineOptions(
        model=target, dtype="float32", max_running=8, context_length=512, seed=1, arms=(OFF, chain(5), ngram(5))
    )
    outcome: dict[str, Any] = {}
    async with scenes.engine(options) as made:
        asked = [scenes.prompt(f"p{i}", (3, 7, 5 + i), temperature=0.6, max_new_tokens=300) for i in range(2)]
        for label in ("none", "wrong"):
            if label == "wrong":
                await made.load_drafter(wrong, DrafterVersion(1))
            reports: list[RoundReport] = []
            listening = asyncio.create_task(_listen(made, reports))
            for turn in range(6):
                await _together(made, f"{label}{turn}", asked)
            outcome[label] = _rounds(await _stop(listening, reports))
        await made.load_drafter(good, DrafterVersion(2))
        greedy = [scenes.prompt(f"g{i}", (4, 9, 2 + i), temperature=0.0, max_new_tokens=90 + 30 * i) for i in range(4)]
        for label, arms in (
            ("off", ["off"]),
            ("turns", ["off", "ngram-5", "chain-5", "ngram-5", "ngram-5", "chain-5"]),
        ):
            made.force_arms(*arms)
            outcome[label] = await _together(made, label, greedy)
    return outcome


def _rounds(reports: list[RoundReport]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for report in reports:
        for window in report.arms:
            counted[window.arm] += window.rounds
    return counted


async def _together(made: SglangEngine, label: str, prompts: list[Prompt]) -> list[TokenChunk]:
    asked = (replace(one, request_id=RequestId(f"{label}/{one.request_id}")) for one in prompts)
    return list(await asyncio.gather(*(scenes.answer(made, one) for one in asked)))


async def _listen(made: SglangEngine, into: list[RoundReport]) -> Never:
    source = made.reports()
    while True:
        into.append(await anext(source))


async def _stop(listening: "asyncio.Task[Never]", reports: list[RoundReport]) -> list[RoundReport]:
    """Return the reports so far."""
    await asyncio.sleep(0.2)  # they are on their way
    listening.cancel()
    return list(reports)
