"""EAGLE-3 drafters in an engine."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tests.engine import eagle3, models
from tests.engine.scenes.answers import accepted, stats
from tests.engine.scenes.engine import PROMPT, answer, frames, prompt, running
from tests.lossless import exact
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.reading import standard_format
from tlt_common.errors import WeightsError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

ARMS = ("off", "chain-3", "chain-7", "chain-3-top1", "tree-3x4-8")
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 120}
SAMPLES = 2500
KNOWN = tuple(range(2, 22))
FEWER = (23, 0, *range(3, 18))
"""Unordered, and without some of the target's tokens."""


class CapturedStates(Protocol):
    """A reference in plain torch."""

    def captured(self, ids: Sequence[int]) -> Tensor:
        """Return what an engine captures."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Greedy answers, and the values computed in plain torch."""

    answers: list[TokenChunk]
    expected: list[list[int]]
    rounds: list[int]
    expected_rounds: list[list[int]]
    """Per answer, for each arm that may run first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """First tokens of many answers, and their exact distribution."""

    tokens: list[tuple[int, ...]]
    accepted_per_answer: float
    exact: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """Frames of one answer, and its states computed in plain torch: [T, (K + 1) * H]."""

    frames: list[EncodedFrame]
    states: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3Result:
    """A Qwen3 in an engine that starts without a drafter."""

    early: TokenChunk
    """An answer during which the first drafter is loaded."""
    early_off: TokenChunk
    off: list[TokenChunk]
    chain: Compared
    in_turn: Compared
    fewer_tokens: Compared
    """With a drafter whose head covers other tokens."""
    storm: list[TokenChunk]
    refusals: list[str]
    sampled_chain: Sampled
    sampled_tree: Sampled
    captured: Captured
    updated: TokenChunk
    """Under new weights of the target."""
    updated_expected: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksResult:
    """A Llama over two ranks."""

    in_turn: Compared
    sampled: TokenChunk


def _write_target(directory: Path, seed: int = 0) -> Path:
    return models.write_target(
        directory, vocabulary=24, hidden=48, layers=8, weight=0.09, family="qwen3", kv_heads=4, seed=seed
    )


async def qwen3(work: Path) -> Qwen3Result:
    """A Qwen3 in an engine that starts without a drafter: greedy, swapped, sampled, captured, updated."""
    target = _write_target(work / "target")
    shape = json.loads((target / "config.json").read_text())
    form = standard_format(DrafterArchitecture.EAGLE3, shape, draft_vocabulary=len(KNOWN))
    good = eagle3.write_drafter(work / "good", target, form, KNOWN, noise=0.02)
    other = eagle3.write_drafter(work / "other", target, form, FEWER, noise=0.04, seed=4)
    config = EngineConfig(
        drafter_architecture=DrafterArchitecture.EAGLE3, draft_vocabulary=len(KNOWN),
        dtype="float32", max_running=256, context_length=256, arms=ARMS,
    )  # fmt: skip
    async with running(target, config, Experiment(seed=1)) as engine:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(4)]
        # Different prompts: the prefix cache holds what the previous drafter wrote for the first ones.
        others = [prompt(f"q{i}", tuple(range(20 - i, 8, -1)), **GREEDY) for i in range(4)]
        reference = eagle3.Reference(good, target, form)
        request = asyncio.create_task(answer(engine, prompt("early", temperature=0.0, max_new_tokens=200)))
        await asyncio.sleep(0.1)
        await engine.load_drafter(good, DrafterVersion(1))
        engine.force_arms("chain-3")
        early = await request
        engine.force_arms("off")
        return Qwen3Result(
            early=early,
            off=[await answer(engine, one) for one in prompts],
            early_off=await answer(engine, prompt("late", temperature=0.0, max_new_tokens=200)),
            chain=await _compared(engine, prompts, reference, (3,)),
            in_turn=await _compared(engine, prompts, reference, (0, 0, 7, 0, 3)),
            fewer_tokens=await _compared(engine, others, eagle3.Reference(other, target, form), (3, 7)),
            storm=await _storm(engine, prompts, [good, other]),
            refusals=await _refusals(engine, work, target, form),
            sampled_chain=await _sampled(engine, target, good, "chain-3"),
            sampled_tree=await _sampled(engine, target, good, "tree-3x4-8"),
            captured=await captured(engine, reference, ("chain-3", "off", "tree-3x4-8")),
            updated=await _updated(engine, newer := _write_target(work / "newer", seed=5), prompts[0]),
            updated_expected=greedy(newer, prompts[0]),
        )


async def ranks(work: Path) -> RanksResult:
    """A Llama over two ranks, with a drafter of a different shape from the start."""
    target = models.write_target(work / "target", vocabulary=24, hidden=48, layers=4, weight=0.12)
    shape = json.loads((target / "config.json").read_text())
    plain = standard_format(DrafterArchitecture.EAGLE3, shape, draft_vocabulary=len(KNOWN), layers=(0, 1, 2))
    form = replace(plain, kv_heads=4, intermediate_size=64)
    drafter = eagle3.write_drafter(work / "drafter", target, form, KNOWN, noise=0.02)
    config = EngineConfig(
        drafter=drafter, dtype="float32", max_running=8, context_length=256, tensor_parallel=2, arms=ARMS
    )
    async with running(target, config) as engine:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(2)]
        reference = eagle3.Reference(drafter, target, form)
        return RanksResult(
            in_turn=await _compared(engine, prompts, reference, (3, 0, 7)),
            sampled=await answer(engine, prompt("sampled", max_new_tokens=60)),
        )


async def _compared(
    engine: SglangEngine, prompts: list[Prompt], reference: eagle3.Reference, arms: tuple[int, ...]
) -> Compared:
    """Answer prompts one by one with chains of these lengths in turn, 0 for off; count the reference's rounds too."""
    if engine.config.drafter is None:
        await _load(engine, reference.drafter)
    answers, expected = [], []
    for one in prompts:
        engine.force_arms(*(f"chain-{steps}" if steps else "off" for steps in arms))
        answers.append(await answer(engine, one))
        ids = [*one.token_ids, *answers[-1].token_ids]
        # Which arm comes first depends on the number of earlier rounds.
        turns = [(*arms[first:], *arms[:first]) for first in range(len(arms))]
        expected.append([reference.rounds(ids, len(one.token_ids), turn) for turn in turns])
    return Compared(
        answers=answers,
        expected=[greedy(reference.target, one) for one in prompts],
        rounds=[stats(each).rounds - 1 for each in answers],
        expected_rounds=expected,
    )


async def _updated(engine: SglangEngine, newer: Path, one: Prompt) -> TokenChunk:
    """Return an answer under new weights of the target."""
    await engine.load_weights(newer, PolicyVersion(1))
    engine.force_arms("chain-3", "off", "chain-7")
    return await answer(engine, one)


_versions = itertools.count(2)


async def _load(engine: SglangEngine, drafter: Path) -> None:
    await engine.load_drafter(drafter, DrafterVersion(next(_versions)))


async def _storm(engine: SglangEngine, prompts: list[Prompt], drafters: list[Path]) -> list[TokenChunk]:
    """Answer prompts concurrently, with arms in turn, while drafters are swapped."""
    engine.force_arms("off", "chain-3", "tree-3x4-8", "off", "off", "chain-3-top1", "chain-7")
    answers = [
        asyncio.create_task(answer(engine, replace(one, request_id=RequestId(f"storm{n}"))))
        for n, one in enumerate(prompts)
    ]
    for drafter in itertools.cycle(drafters):
        if all(task.done() for task in answers):
            break
        await _load(engine, drafter)
        await asyncio.sleep(0.05)
    return [await task for task in answers]


async def _refusals(engine: SglangEngine, work: Path, target: Path, form: DrafterFormat) -> list[str]:
    """Load drafters that do not fit this engine; return the errors."""
    eagle = models.write_drafter(work / "eagle", target, noise=0.02)
    nan = eagle3.write_drafter(work / "nan", target, form, KNOWN, noise=float("nan"))
    twice = eagle3.write_drafter(work / "twice", target, form, (*KNOWN[:-1], KNOWN[0]), noise=0.02)
    cut = eagle3.write_drafter(work / "cut", target, form, KNOWN, noise=0.02)
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    messages = []
    for offered in (eagle, nan, twice, cut, work / "nowhere"):
        try:
            await _load(engine, offered)
        except WeightsError as error:
            messages.append(error.message)
    return messages


async def _sampled(engine: SglangEngine, target: Path, drafter: Path, arm: str) -> Sampled:
    await _load(engine, drafter)
    return await sampled(engine, target, arm, (arm,))


async def sampled(engine: SglangEngine, target: Path, label: str, arms: Sequence[str]) -> Sampled:
    """Sample many short answers under these arms in turn."""
    engine.force_arms(*arms)
    sampling = SamplingParams(max_new_tokens=exact.TOKENS + 3, ignore_eos=True, temperature=0.9, top_p=0.95)
    drawn: list[TokenChunk] = []
    for start in range(0, SAMPLES, 500):
        names = [RequestId(f"{label}/{i}") for i in range(start, start + 500)]
        prompts = (Prompt(request_id=name, token_ids=PROMPT, sampling=sampling) for name in names)
        drawn += await asyncio.gather(*(answer(engine, one) for one in prompts))
    return Sampled(
        tokens=[chunk.token_ids[: exact.TOKENS] for chunk in drawn],
        accepted_per_answer=accepted(drawn) / len(drawn),
        exact=exact.exact(exact.next_logits(models.load(target), PROMPT), sampling)["2-4"],
    )


async def captured(engine: SglangEngine, reference: CapturedStates, arms: Sequence[str]) -> Captured:
    """Return the frames of an answer under these arms in turn."""
    engine.force_arms(*arms)
    engine.set_capture(CapturePolicy(enabled=True, frame_tokens=64))
    await answer(engine, prompt("warm", max_new_tokens=2))
    asked = prompt("captured", (11, 22, *range(3, 18)), max_new_tokens=100)
    chunk = await answer(engine, asked)
    own = [frame for frame in await frames(engine) if frame.header.request_id == "captured"]
    engine.set_capture(CapturePolicy(enabled=False))
    return Captured(frames=own, states=reference.captured([*asked.token_ids, *chunk.token_ids]))


def greedy(target: Path, one: Prompt) -> list[int]:
    """Return the target's own greedy answer."""
    with torch.no_grad():
        generated = models.load(target).generate(
            torch.tensor([one.token_ids]), max_new_tokens=one.sampling.max_new_tokens,
            min_new_tokens=one.sampling.max_new_tokens, do_sample=False, eos_token_id=None,
        )  # fmt: skip
    ids: list[int] = generated[0, len(one.token_ids) :].tolist()
    return ids
