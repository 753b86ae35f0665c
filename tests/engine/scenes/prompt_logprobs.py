"""Log-probabilities of prompts, and transformers' for the same tokens."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes.engine import answer, prompt
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.merged_chunk import MergedChunk
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine

SHORT = tuple(range(3, 12))
LONG = tuple(3 + (7 * place) % 59 for place in range(200))
"""Computed in many chunks."""
CACHED_FROM = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Answers to prompts, and the values of transformers in float32."""

    prompts: list[Prompt]
    answers: list[TokenChunk]
    expected: list[list[float]]
    """Of all tokens of each prompt but the first."""


async def scored(engine: SglangEngine, target: Path, arms: Sequence[str]) -> Scored:
    """Ask together for the log-probabilities of parts of prompts, with arms in turn."""
    engine.force_arms(*arms)
    asked = [
        _asking("beginning", SHORT, 0),
        _asking("end", SHORT, len(SHORT) - 1),
        replace(_asking("none", SHORT, 0), prompt_logprobs_start=None),
        replace(_asking("resumed", SHORT, 1), prefix_token_ids=(20, 21, 22)),
        _asking("long", LONG, 0),
        _asking("middle", LONG[::-1], 90),
        _asking("one", (5,), 0),
    ]
    named = [_named(one, arms) for one in asked]
    answers = list(await asyncio.gather(*(answer(engine, one) for one in named)))
    cached = _named(_asking("cached", LONG, CACHED_FROM), arms)
    answers.append(await answer(engine, cached))
    prompts = [*named, cached]
    return Scored(prompts=prompts, answers=answers, expected=[_expected(target, one) for one in prompts])


async def retracted(engine: SglangEngine, target: Path) -> Scored:
    """
    Ask for log-probabilities, and load the same weights anew after the first token: this retracts what runs, also in
    the middle of a prompt.
    """
    sampling, begun = prompt("", max_new_tokens=100).sampling, asyncio.Event()

    async def answered(one: Prompt) -> TokenChunk:
        whole = MergedChunk()
        async for chunk in engine.generate(one):
            whole.add(chunk)
            begun.set()
        return whole.whole()

    prompts = [replace(_asking(f"retracted{place}", LONG[place:], 40 * place), sampling=sampling) for place in range(3)]
    tasks = [asyncio.create_task(answered(one)) for one in prompts]
    await begun.wait()
    await engine.load_weights(target, PolicyVersion(2))
    answers = list(await asyncio.gather(*tasks))
    return Scored(prompts=prompts, answers=answers, expected=[_expected(target, one) for one in prompts])


def _asking(name: str, ids: tuple[int, ...], start: int) -> Prompt:
    return replace(prompt(name, ids, max_new_tokens=12), prompt_logprobs_start=start)


def _named(asked: Prompt, arms: Sequence[str]) -> Prompt:
    return replace(asked, request_id=RequestId(f"{asked.request_id}/{len(arms)}/{arms[0]}"))


@torch.no_grad()
def _expected(target: Path, asked: Prompt) -> list[float]:
    rows = models.load(target)(torch.tensor([asked.token_ids])).logits[0].log_softmax(-1)
    return [float(row[token]) for row, token in zip(rows, asked.token_ids[1:], strict=False)]
