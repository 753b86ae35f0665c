"""EAGLE drafters in engines that draft from a part of the target's vocabulary."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.engine import models
from tests.engine.scenes.answers import accepted, rounds
from tests.engine.scenes.engine import PROMPT, answer, prompt, running
from tests.lossless import exact
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

VOCABULARY, COVERED = 64, 20
ARMS = ("off", "chain-3", "chain-7", "tree-3x4-8")
TURNS = ("off", "chain-3", "tree-3x4-8", "off", "chain-7")
SAMPLES = 2500


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduced:
    """Answers of an engine that drafts from a third of the vocabulary."""

    off: list[TokenChunk]
    in_turn: list[TokenChunk]
    first: list[TokenChunk]
    """Under one arm, before the engine has seen what is said."""
    later: list[TokenChunk]
    """The same, afterwards."""
    updated: list[TokenChunk]
    """Under new weights of the target."""
    updated_off: list[TokenChunk]
    seeded: dict[str, list[TokenChunk]]
    """By arm."""
    sampled: dict[str, list[tuple[int, ...]]]
    """First tokens of many answers, by arm."""
    exact: npt.NDArray[np.float64]
    """Their distribution."""


def _write_target(directory: Path, seed: int = 11) -> Path:
    return models.write_target(directory, vocabulary=VOCABULARY, weight=0.05, seed=seed)


def _config(drafter: Path, **more: Any) -> EngineConfig:
    return EngineConfig(
        drafter=drafter,
        draft_vocabulary=COVERED,
        dtype="float32",
        max_running=256,
        context_length=256,
        arms=ARMS,
        **more,
    )  # fmt: skip


async def reduced(work: Path) -> Reduced:
    """Greedy, seeded and sampled answers, before and after tokens are chosen, and under new weights."""
    target, newer = _write_target(work / "target"), _write_target(work / "newer", seed=5)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    async with running(target, _config(drafter), Experiment(seed=1)) as engine:
        first = await _greedy(engine, "first", "chain-3")
        await _greedy(engine, "seen", "off", count=16)
        later = await _greedy(engine, "later", "chain-3")
        off, in_turn = await _greedy(engine, "off", "off"), await _greedy(engine, "turns", *TURNS)
        seeded = {arm: await _greedy(engine, f"seeded {arm}", arm, temperature=1.0, seed=7) for arm in ARMS}
        sampled = {arm: await _sampled(engine, arm) for arm in ("chain-3", "tree-3x4-8")}
        await engine.load_weights(newer, PolicyVersion(1))
        await engine.load_drafter(drafter, DrafterVersion(2))
        updated, updated_off = await _greedy(engine, "new", "chain-3"), await _greedy(engine, "new off", "off")
    sampling = SamplingParams(max_new_tokens=exact.TOKENS, temperature=0.9, top_p=0.95)
    return Reduced(
        off=off,
        in_turn=in_turn,
        first=first,
        later=later,
        updated=updated,
        updated_off=updated_off,
        seeded=seeded,
        sampled=sampled,
        exact=exact.exact(exact.next_logits(models.load(target), PROMPT), sampling)["2-4"],
    )


async def reduced_ranks(work: Path) -> dict[str, list[TokenChunk]]:
    """Answers of two ranks, each of which covers tokens of its own shard, by arm."""
    target = _write_target(work / "target")
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    async with running(target, _config(drafter, tensor_parallel=2), Experiment(seed=1)) as engine:
        await _greedy(engine, "seen", "off", count=16)
        return {arm: await _greedy(engine, arm, arm) for arm in ("off", "chain-7", "tree-3x4-8")}


async def _greedy(engine: SglangEngine, name: str, *arms: str, count: int = 4, **more: Any) -> list[TokenChunk]:
    engine.force_arms(*arms)
    sampling = {"temperature": 0.0, "max_new_tokens": 100} | more
    prompts = [prompt(f"{name}{n}", (3 + n, 7, 5, 40 + n), **sampling) for n in range(count)]
    return list(await asyncio.gather(*(answer(engine, one) for one in prompts)))


async def _sampled(engine: SglangEngine, arm: str) -> list[tuple[int, ...]]:
    engine.force_arms(arm)
    sampling = SamplingParams(max_new_tokens=exact.TOKENS + 3, ignore_eos=True, temperature=0.9, top_p=0.95)
    drawn: list[TokenChunk] = []
    for start in range(0, SAMPLES, 500):
        names = [RequestId(f"{arm}/{i}") for i in range(start, start + 500)]
        prompts = (Prompt(request_id=name, token_ids=PROMPT, sampling=sampling) for name in names)
        drawn += await asyncio.gather(*(answer(engine, one) for one in prompts))
    return [chunk.token_ids[: exact.TOKENS] for chunk in drawn]


def accept_length(answers: list[TokenChunk]) -> float:
    """Return the tokens per round, prefill not included."""
    return 1 + accepted(answers) / (rounds(answers) - len(answers))
