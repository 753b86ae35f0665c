"""Retrieved drafts: alone in an engine, and together with a learned drafter that is always wrong."""

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never

from tests.engine import models
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

GROUP = 8
CASES = {"off": ["off"], "ngram": ["ngram-5"], "cycle": ["off", "ngram-5"], "bandit": []}


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneResult:
    """An engine without a learned arm."""

    greedy: dict[str, list[TokenChunk]]
    """By case, a key of `CASES`."""
    updated: list[TokenChunk]
    """The same requests, with weights loaded in flight."""
    first: list[TokenChunk]
    second: list[TokenChunk]
    """The same group of prompts again."""
    keyed: list[TokenChunk]
    """One greedy request: twice under one cache key, and twice under another."""
    index_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedResult:
    """An engine with a learned and a retrieving arm."""

    rounds_without_drafter: Counter[str]
    """Rounds by arm."""
    rounds_with_wrong_drafter: Counter[str]
    off: list[TokenChunk]
    turns: list[TokenChunk]
    """Arms in turn, with a good drafter."""


async def alone(work: Path) -> AloneResult:
    """Greedy answers, then sampled answers to a group of one prompt, twice."""
    target = models.write_target(work / "target")
    config = EngineConfig(dtype="float32", max_running=16, context_length=512, arms=("off", "ngram-5"))
    async with running(target, config, Experiment(seed=1)) as engine:
        reports: list[RoundReport] = []
        collecting = asyncio.create_task(_collect(engine, reports))
        prompts = [prompt(f"p{i}", tuple(range(3, 6 + i)), temperature=0.0, max_new_tokens=150) for i in range(4)]
        greedy = {}
        for label, arms in CASES.items():
            engine.force_arms(*arms)
            greedy[label] = await _together(engine, label, prompts)
        updating = asyncio.create_task(_together(engine, "updated", prompts))
        await asyncio.sleep(0.1)
        await engine.load_weights(target, PolicyVersion(1))
        updated = await updating
        engine.force_arms("ngram-5")
        group = [prompt(f"s{i}", (9, 3, 12, 5, 14), temperature=0.6, max_new_tokens=200) for i in range(GROUP)]
        return AloneResult(
            greedy=greedy,
            updated=updated,
            first=await _together(engine, "first", group),
            second=await _together(engine, "second", group),
            keyed=[await answer(engine, one) for one in _keyed()],
            index_bytes=(await _stop(collecting, reports))[-1].index_bytes,
        )


def _keyed() -> list[Prompt]:
    one = prompt("keyed", (9, 3, 12, 5, 14, 7, 10, 4) * 4, temperature=0.0, max_new_tokens=100)
    return [
        replace(one, request_id=RequestId(f"{key}{turn}"), cache_key=key) for key in ("mine", "theirs") for turn in "12"
    ]


async def mixed(work: Path) -> MixedResult:
    """Let the bandit choose, without a drafter and with a wrong one; then run arms in turn with a good one."""
    target = models.write_target(work / "target")
    wrong = models.write_drafter(work / "wrong", target, noise=0.02, gain=-1.0)
    good = models.write_drafter(work / "good", target, noise=0.02)
    config = EngineConfig(dtype="float32", max_running=8, context_length=512, arms=("off", "chain-5", "ngram-5"))
    async with running(target, config, Experiment(seed=1)) as engine:
        without_drafter = await _chosen(engine, "none")
        await engine.load_drafter(wrong, DrafterVersion(1))
        with_wrong_drafter = await _chosen(engine, "wrong")
        await engine.load_drafter(good, DrafterVersion(2))
        greedy = [prompt(f"g{i}", (4, 9, 2 + i), temperature=0.0, max_new_tokens=90 + 30 * i) for i in range(4)]
        engine.force_arms("off")
        off = await _together(engine, "off", greedy)
        engine.force_arms("off", "ngram-5", "chain-5", "ngram-5", "ngram-5", "chain-5")
        turns = await _together(engine, "turns", greedy)
    return MixedResult(
        rounds_without_drafter=without_drafter, rounds_with_wrong_drafter=with_wrong_drafter, off=off, turns=turns
    )


async def _chosen(engine: SglangEngine, label: str) -> Counter[str]:
    """Return the rounds per arm over six pairs of sampled answers."""
    prompts = [prompt(f"p{i}", (3, 7, 5 + i), temperature=0.6, max_new_tokens=300) for i in range(2)]
    reports: list[RoundReport] = []
    collecting = asyncio.create_task(_collect(engine, reports))
    for turn in range(6):
        await _together(engine, f"{label}{turn}", prompts)
    counted: Counter[str] = Counter()
    for report in await _stop(collecting, reports):
        for window in report.arms:
            counted[window.arm] += window.rounds
    return counted


async def _together(engine: SglangEngine, label: str, prompts: list[Prompt]) -> list[TokenChunk]:
    labeled = (replace(one, request_id=RequestId(f"{label}/{one.request_id}")) for one in prompts)
    return list(await asyncio.gather(*(answer(engine, one) for one in labeled)))


async def _collect(engine: SglangEngine, reports: list[RoundReport]) -> Never:
    source = engine.reports()
    while True:
        reports.append(await anext(source))


async def _stop(collecting: "asyncio.Task[Never]", reports: list[RoundReport]) -> list[RoundReport]:
    """Return the reports received so far."""
    await asyncio.sleep(0.2)  # the last ones are in flight
    collecting.cancel()
    return list(reports)
