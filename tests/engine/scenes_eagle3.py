"""EAGLE-3 drafters in an engine."""

import asyncio
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import eagle3  # type: ignore[import-not-found] # beside this script
import models  # type: ignore[import-not-found] # beside this script
import scenes  # type: ignore[import-not-found] # beside this script
import torch

from tests.lossless import exact
from tlt_common.domain.drafter import DrafterModel
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, SamplingParams, TokenChunk
from tlt_common.domain.strategy import arm_named
from tlt_common.errors import WeightsError
from tlt_worker.engine.form import standard_form
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

ARMS = tuple(arm_named(name) for name in ("off", "chain-3", "chain-7", "chain-3-top1", "tree-3x4-8"))
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 120}
SAMPLES = 2500
KNOWN = tuple(range(2, 22))
FEWER = (23, 0, *range(3, 18))
"""In no order, and without some that the target says."""


async def qwen3(work: Path) -> dict[str, Any]:
    """A Qwen3 through an engine that starts without a drafter: greedy, swapped, sampled, captured, updated."""
    target = models.write_target(
        work / "target", vocabulary=24, hidden=48, layers=8, weight=0.09, family="qwen3", kv_heads=4
    )
    config = json.loads((target / "config.json").read_text())
    form = standard_form(DrafterModel.EAGLE3, config, draft_vocabulary=len(KNOWN))
    good = eagle3.write_drafter(work / "good", target, form, KNOWN, noise=0.02)
    other = eagle3.write_drafter(work / "other", target, form, FEWER, noise=0.04, seed=4)
    options = EngineOptions(
        model=target, drafter_kind=DrafterModel.EAGLE3, draft_vocabulary=len(KNOWN), dtype="float32", max_running=256,
        context_length=256, seed=1, arms=ARMS,
    )  # fmt: skip
    outcome: dict[str, Any] = {}
    async with scenes.engine(options) as made:
        prompts = [scenes.prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(4)]
        running = asyncio.create_task(scenes.answer(made, scenes.prompt("early", temperature=0.0, max_new_tokens=200)))
        await asyncio.sleep(0.1)
        await made.load_drafter(good, DrafterVersion(1))
        made.force_arms("chain-3")
        outcome["early"], outcome["early_off"] = await running, None
        made.force_arms("off")
        outcome["off"] = [await scenes.answer(made, one) for one in prompts]
        outcome["early_off"] = await scenes.answer(made, scenes.prompt("late", temperature=0.0, max_new_tokens=200))
        for label, drafter, arms, asked in (
            ("chain", good, (3,), prompts),
            ("in turn", good, (0, 0, 7, 0, 3), prompts),
            # Others: what is cached of a prompt was written by the drafter before.
            (
                "fewer tokens",
                other,
                (3, 7),
                [scenes.prompt(f"q{i}", tuple(range(20 - i, 8, -1)), **GREEDY) for i in range(4)],
            ),
        ):
            outcome[label] = await _against_reference(made, asked, eagle3.Reference(drafter, target, form), arms)
        outcome["storm"] = await _storm(made, prompts, [good, other])
        outcome["refusals"] = await _refused(made, work, target, form)
        await _load(made, good)
        outcome["sampled chain"] = await _sampled(made, target, "chain-3")
        outcome["sampled tree"] = await _sampled(made, target, "tree-3x4-8")
        outcome |= await _captured(made, eagle3.Reference(good, target, form))
        newer = models.write_target(
            work / "newer", vocabulary=24, hidden=48, layers=8, weight=0.09, family="qwen3", kv_heads=4, seed=5
        )
        await made.load_weights(newer, PolicyVersion(1))
        made.force_arms("chain-3", "off", "chain-7")
        outcome["updated"] = await scenes.answer(made, prompts[0])
        outcome["updated_expected"] = _greedy(newer, prompts[0])
    return outcome


async def ranks(work: Path) -> dict[str, Any]:
    """A Llama over two ranks, with a drafter of its own form from the start."""
    target = models.write_target(work / "target", vocabulary=24, hidden=48, layers=4, weight=0.12)
    config = json.loads((target / "config.json").read_text())
    plain = standard_form(DrafterModel.EAGLE, config)
    form = replace(
        plain, kind=DrafterModel.EAGLE3, layers=(0, 1, 2), draft_vocab_size=len(KNOWN), kv_heads=4, intermediate_size=64
    )
    drafter = eagle3.write_drafter(work / "drafter", target, form, KNOWN, noise=0.02)
    options = EngineOptions(
        model=target, drafter=drafter, dtype="float32", max_running=8, context_length=256, tensor_parallel=2, arms=ARMS
    )
    outcome: dict[str, Any] = {}
    async with scenes.engine(options) as made:
        prompts = [scenes.prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(2)]
        reference = eagle3.Reference(drafter, target, form)
        outcome["in turn"] = await _against_reference(made, prompts, reference, (3, 0, 7))
        outcome["sampled"] = await scenes.answer(made, scenes.prompt("sampled", max_new_tokens=60))
    return outcome


async def _against_reference(
    made: SglangEngine, prompts: list[Prompt], reference: eagle3.Reference, arms: tuple[int, ...]
) -> dict[str, Any]:
    """Answers one by one under arms in turn; their rounds, and those plain torch counts."""
    if made.options.drafter is None:
        await _load(made, reference.drafter)
    answers, expected = [], []
    for one in prompts:
        made.force_arms(*(f"chain-{steps}" if steps else "off" for steps in arms))
        answers.append(await scenes.answer(made, one))
        ids = [*one.token_ids, *answers[-1].token_ids]
        # Which of the arms comes first depends on the rounds before.
        turns = [(*arms[first:], *arms[:first]) for first in range(len(arms))]
        expected.append([reference.rounds(ids, len(one.token_ids), turn) for turn in turns])
    rounds = [answer.stats.rounds - 1 for answer in answers if answer.stats]
    texts = [_greedy(reference.target, one) for one in prompts]
    return {"answers": answers, "expected": texts, "rounds": rounds, "expected_rounds": expected}


_versions = itertools.count(2)


async def _load(made: SglangEngine, drafter: Path) -> None:
    await made.load_drafter(drafter, DrafterVersion(next(_versions)))


async def _storm(made: SglangEngine, prompts: list[Prompt], drafters: list[Path]) -> list[TokenChunk]:
    """Answers at once, with arms in turn, while drafters are swapped."""
    made.force_arms("off", "chain-3", "tree-3x4-8", "off", "off", "chain-3-top1", "chain-7")
    answers = [
        asyncio.create_task(scenes.answer(made, replace(one, request_id=RequestId(f"storm{n}"))))
        for n, one in enumerate(prompts)
    ]
    for drafter in itertools.cycle(drafters):
        if all(task.done() for task in answers):
            break
        await _load(made, drafter)
        await asyncio.sleep(0.05)
    return [await task for task in answers]


async def _refused(made: SglangEngine, work: Path, target: Path, form: Any) -> list[str]:
    """Offer drafters that are none for this engine."""
    eagle = models.write_drafter(work / "eagle", target, noise=0.02)
    nan = eagle3.write_drafter(work / "nan", target, form, KNOWN, noise=float("nan"))
    twice = eagle3.write_drafter(work / "twice", target, form, (*KNOWN[:-1], KNOWN[0]), noise=0.02)
    cut = eagle3.write_drafter(work / "cut", target, form, KNOWN, noise=0.02)
    whole = (cut / "model.safetensors").read_bytes()
    (cut / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    said = []
    for offered in (eagle, nan, twice, cut, work / "nowhere"):
        try:
            await _load(made, offered)
        except WeightsError as error:
            said.append(error.message)
    return said


async def _sampled(made: SglangEngine, target: Path, arm: str) -> dict[str, Any]:
    """Many short answers under one arm, beside their exact distribution."""
    made.force_arms(arm)
    sampling = SamplingParams(max_new_tokens=exact.TOKENS + 3, ignore_eos=True, temperature=0.9, top_p=0.95)
    drawn: list[TokenChunk] = []
    for start in range(0, SAMPLES, 500):
        names = [RequestId(f"{arm}/{i}") for i in range(start, start + 500)]
        asked = (Prompt(request_id=name, token_ids=scenes.PROMPT, sampling=sampling) for name in names)
        drawn += await asyncio.gather(*(scenes.answer(made, one) for one in asked))
    return {
        "tokens": [chunk.token_ids[: exact.TOKENS] for chunk in drawn],
        "accepted": sum(c.stats.accepted_draft_tokens for c in drawn if c.stats) / len(drawn),
        "exact": exact.exact(exact.next_logits(models.load(target), scenes.PROMPT), sampling)["2-4"],
    }


async def _captured(made: SglangEngine, reference: eagle3.Reference) -> dict[str, Any]:
    made.force_arms("chain-3", "off")
    made.set_capture(CapturePolicy(enabled=True, frame_tokens=64))
    await scenes.answer(made, scenes.prompt("warm", max_new_tokens=2))
    captured = scenes.prompt("captured", (11, 22, *range(3, 18)), max_new_tokens=100)
    chunk = await scenes.answer(made, captured)
    frames = [frame for frame in await scenes.frames(made) if frame.request_id == "captured"]
    made.set_capture(CapturePolicy(enabled=False))
    return {"frames": frames, "states": reference.states([*captured.token_ids, *chunk.token_ids])}


def _greedy(target: Path, prompt: Prompt) -> list[int]:
    with torch.no_grad():
        told = models.load(target).generate(
            torch.tensor([prompt.token_ids]), max_new_tokens=prompt.sampling.max_new_tokens,
            min_new_tokens=prompt.sampling.max_new_tokens, do_sample=False, eos_token_id=None,
        )  # fmt: skip
    ids: list[int] = told[0, len(prompt.token_ids) :].tolist()
    return ids
