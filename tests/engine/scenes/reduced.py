"""Drafters in engines that draft from a part of the target's vocabulary."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file, save_file

from tests.engine import block, models
from tests.engine.block import Kind
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
    """Under new weights of the target, once the engine has seen what is said now."""
    updated_off: list[TokenChunk]
    seeded: dict[str, list[TokenChunk]]
    """By arm."""
    sampled: dict[str, list[tuple[int, ...]]]
    """First tokens of many answers under the new weights, by arm."""
    exact: npt.NDArray[np.float64]
    """Their distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A kind of drafter that uses its target's head."""

    arms: tuple[str, ...] = ("off", "chain-3", "chain-7")
    """The second one is what figures are about, the last one the longest."""
    family: str = "llama"

    def write_target(self, directory: Path, seed: int = 11) -> Path:
        """Write a target, with a head if its family's checkpoints bring one."""
        target = models.write_target(directory, vocabulary=VOCABULARY, weight=0.05, seed=seed, family=self.family)
        return models.write_head(target, noise=0.02) if self.brings_head else target

    def write_drafter(self, directory: Path, target: Path) -> Path:
        """Write a drafter as it is published."""
        if self.brings_head:
            return models.write_published_head(directory, target, noise=0.02, gain=1.0)
        return models.write_drafter(directory, target, noise=0.02)

    @property
    def brings_head(self) -> bool:
        """Whether the target's checkpoint brings the drafter."""
        return self.family != "llama"

    def config(self, drafter: Path, **more: Any) -> EngineConfig:
        """Return the configuration of an engine; one whose target brings a head finds that by itself."""
        given = {} if self.brings_head else {"drafter": drafter}
        return EngineConfig(
            draft_vocabulary=COVERED,
            dtype="float32",
            max_running=256,
            context_length=256,
            arms=self.arms,
            **given,
            **more,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Glm(Case):
    """A head with copies of its target's embedding and head, as published; they are of no use."""

    family: str = "glm4_moe"

    def write_target(self, directory: Path, seed: int = 11) -> Path:
        target = Case.write_target(self, directory, seed)
        tensors = load_file(target / "model.safetensors")
        for name in models.head_format(target).head.copies:
            tensors[f"model.layers.2.{name}"] = torch.randn(tensors["lm_head.weight"].shape)
        save_file(tensors, target / "model.safetensors", {"format": "pt"})
        return target


@dataclass(frozen=True, slots=True, kw_only=True)
class Block(Case):
    """A block drafter; DSpark's Markov head would draft as well by wrong rows of the target's."""

    kind: Kind = block.DFLASH
    arms: tuple[str, ...] = ("off", "block-3", "block-7")

    def write_target(self, directory: Path, seed: int = 11) -> Path:
        return block.write_target(
            directory, vocabulary=VOCABULARY, hidden=48, layers=8, kv_heads=4, weight=0.05, seed=seed
        )

    def write_drafter(self, directory: Path, target: Path) -> Path:
        return block.write_drafter(directory, target, self.kind, noise=0.02)


_EAGLE, _MIMO = Case(arms=("off", "chain-3", "tree-3x4-8", "chain-7")), Case(family="mimo")


async def eagle(work: Path) -> Reduced:
    """With chains and trees."""
    return await _played(work, _EAGLE)


async def glm(work: Path) -> Reduced:
    """A sparse head of a checkpoint."""
    return await _played(work, Glm())


async def mimo(work: Path) -> Reduced:
    """A dense one."""
    return await _played(work, _MIMO)


async def dflash(work: Path) -> Reduced:
    """Blocks."""
    return await _played(work, Block())


async def _played(work: Path, case: Case) -> Reduced:
    """Greedy, seeded and sampled answers, before and after tokens are chosen, and under new weights."""
    target, newer = case.write_target(work / "target"), case.write_target(work / "newer", seed=5)
    drafter, arm = case.write_drafter(work / "drafter", target), case.arms[1]
    async with running(target, case.config(drafter), Experiment(seed=1)) as engine:
        first = await _greedy(engine, "first", arm)
        await _greedy(engine, "seen", "off", count=16)
        later = await _greedy(engine, "later", arm)
        off, in_turn = await _greedy(engine, "off", "off"), await _greedy(engine, "turns", *case.arms, "off")
        seeded = {arm: await _greedy(engine, f"seeded {arm}", arm, temperature=1.0, seed=7) for arm in case.arms}
        await engine.load_weights(newer, PolicyVersion(1))
        await engine.load_drafter(case.write_drafter(work / "next", newer), DrafterVersion(2))
        await _greedy(engine, "seen anew", "off", count=64)
        updated, updated_off = await _greedy(engine, "new", arm), await _greedy(engine, "new off", "off")
        sampled = {arm: await _sampled(engine, arm) for arm in case.arms[1:-1]}
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
        exact=exact.exact(exact.next_logits(models.load(newer), PROMPT), sampling)["2-4"],
    )


async def eagle_ranks(work: Path) -> dict[str, list[TokenChunk]]:
    """Answers of two ranks, each of which covers tokens of its own shard, by arm."""
    return await _over_ranks(work, _EAGLE)


async def mimo_ranks(work: Path) -> dict[str, list[TokenChunk]]:
    """The same with the head of a checkpoint."""
    return await _over_ranks(work, _MIMO)


async def dspark_ranks(work: Path) -> dict[str, list[TokenChunk]]:
    """The same with blocks."""
    return await _over_ranks(work, Block(kind=block.DSPARK))


async def _over_ranks(work: Path, case: Case) -> dict[str, list[TokenChunk]]:
    target = case.write_target(work / "target")
    drafter = case.write_drafter(work / "drafter", target)
    async with running(target, case.config(drafter, tensor_parallel=2), Experiment(seed=1)) as engine:
        await _greedy(engine, "seen", "off", count=16)
        return {arm: await _greedy(engine, arm, arm) for arm in ("off", *case.arms[2:])}


async def _greedy(engine: SglangEngine, name: str, *arms: str, count: int = 4, **more: Any) -> list[TokenChunk]:
    engine.force_arms(*arms)
    # The scheduler may begin a round before it hears of that.
    await answer(engine, prompt(f"{name} before", (3, 7, 5), temperature=0.0, max_new_tokens=3))
    sampling = {"temperature": 0.0, "max_new_tokens": 100} | more
    prompts = [prompt(f"{name}{n}", (3 + n % 24, 7, 5, 40 + n % 24), **sampling) for n in range(count)]
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
