"""Seeds, penalties, logprob kinds and resumed responses, under every kind of arm and all of them in turn."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.engine import models
from tests.engine.scenes.engine import answer, frames, running
from tlt_common.domain.hidden import CapturePolicy, EncodedFrame
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import LogprobKind, Prompt, SamplingParams, Speculation
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.filters import truncate

ARMS = ("off", "chain-3", "chain-7", "chain-7-top1", "tree-3x4-8", "ngram-4")
FILTERED: dict[str, Any] = {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.02}
SETTINGS: dict[str, dict[str, Any]] = {"plain": {}, "filtered": FILTERED}
LENGTH = 40
PREFIX_TOKENS = 17
STOPS = tuple(range(20, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeded:
    """Answers under one setting."""

    by_arm: dict[str, list[TokenChunk]]
    """Four seeded requests in a batch with others; "all" is every arm in turn."""
    alone: TokenChunk
    """The third of them alone."""
    unseeded: list[TokenChunk]
    """The same request four times without a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalized:
    """Greedy answers to requests with and without penalties, by case."""

    answers: dict[str, TokenChunk]
    expected: dict[str, list[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An answer, and transformers' log-probabilities of its tokens."""

    request_id: RequestId
    answer: TokenChunk
    expected: list[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """Complete answers and answers resumed from a prefix, by case."""

    whole: dict[str, TokenChunk]
    rest: dict[str, TokenChunk]
    frames: list[EncodedFrame]
    """Frames of the resumed greedy answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactResult:
    """Results of the guarantees given to single requests."""

    seeded: dict[str, Seeded]
    """By setting, a key of `SETTINGS`."""
    penalized: Penalized
    logprobs: list[Reported]
    resumed: Resumed


async def exact(work: Path) -> ExactResult:
    """Seeds, penalties, logprob kinds and resumed responses in one engine."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    config = EngineConfig(drafter=drafter, dtype="float32", max_running=16, context_length=256, arms=ARMS)
    async with running(target, config, Experiment(seed=1)) as engine:
        return ExactResult(
            seeded={kind: await _seeded(engine, kind) for kind in SETTINGS},
            penalized=await _penalized(engine, target),
            logprobs=await _kinds(engine, target),
            resumed=await _resumed(engine),
        )


def request(name: str, *, at: int = 0, prefix: tuple[int, ...] = (), **sampling: Any) -> Prompt:
    settings = SamplingParams(**{"max_new_tokens": LENGTH, "ignore_eos": True, **sampling})
    ids = tuple(range(3 + at, 12 + 2 * at))
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=settings, prefix_token_ids=prefix)


async def _seeded(engine: SglangEngine, kind: str) -> Seeded:
    """Answer four seeded requests together with others, under each arm; then one of them alone."""
    settings, by_arm = SETTINGS[kind], {}
    for arm in (*ARMS, "all"):
        engine.force_arms(*(ARMS if arm == "all" else (arm,)))
        prompts = [request(f"{kind}/{arm}/{seed}", at=seed, seed=seed, **settings) for seed in range(4)]
        others = [
            request(f"{kind}/{arm}/unseeded", top_k=5),
            request(f"{kind}/{arm}/penalized", frequency_penalty=0.5, seed=9),
            request(f"{kind}/{arm}/greedy", temperature=0.0),
        ]
        answers = await asyncio.gather(*(answer(engine, one) for one in (*prompts, *others)))
        by_arm[arm] = answers[:4]
    alone = await answer(engine, request(f"{kind}/alone", at=2, seed=2, **settings))
    unseeded = [request(f"{kind}/apart/{place}", at=2, **settings) for place in range(4)]
    return Seeded(
        by_arm=by_arm,
        alone=alone,
        unseeded=list(await asyncio.gather(*(answer(engine, one) for one in unseeded))),
    )


async def _penalized(engine: SglangEngine, target: Path) -> Penalized:
    """Answer greedy requests with and without penalties under a long chain, and with transformers."""
    engine.force_arms("chain-7")
    settings_by_name: dict[str, dict[str, Any]] = {
        "frequency": {"frequency_penalty": 0.5},
        "presence": {"presence_penalty": 0.8},
        "repetition": {"repetition_penalty": 1.6},
        "minimum": {"min_new_tokens": 12, "stop_token_ids": STOPS, "ignore_eos": False},
        "all": {"frequency_penalty": 0.3, "presence_penalty": 0.2, "repetition_penalty": 1.2},
    }
    prompts = [request(name, temperature=0.0, **settings) for name, settings in settings_by_name.items()]
    declined = replace(request("declined", temperature=0.0), speculation=Speculation.OFF)
    free = request("free", temperature=0.0)
    answers = await asyncio.gather(*(answer(engine, one) for one in (*prompts, declined, free)))
    return Penalized(
        answers=dict(zip((*settings_by_name, "declined", "free"), answers, strict=True)),
        expected={one.request_id: _greedy(target, one) for one in (*prompts, declined, free)},
    )


@torch.no_grad()
def _greedy(target: Path, prompt: Prompt) -> list[int]:
    """Decode greedily with transformers, one token at a time."""
    model, sampling, generated = models.load(target), prompt.sampling, list[int]()
    while len(generated) < LENGTH and not (generated and generated[-1] in sampling.stop_token_ids):
        logits = model(torch.tensor([[*prompt.token_ids, *generated]])).logits[0, -1]
        for token in set(generated):
            logits[token] -= sampling.frequency_penalty * generated.count(token) + sampling.presence_penalty
            strength = sampling.repetition_penalty
            logits[token] = logits[token] * strength if logits[token] < 0 else logits[token] / strength
        if len(generated) < sampling.min_new_tokens:
            logits[[*sampling.stop_token_ids, model.config.eos_token_id]] = float("-inf")
        generated.append(int(logits.argmax()))
    return generated


async def _kinds(engine: SglangEngine, target: Path) -> list[Reported]:
    """Answer with every logprob kind, sampled and greedy, with and without drafts; add transformers' values."""
    found: list[Reported] = []
    for arm in ("off", "chain-7", "tree-3x4-8"):
        engine.force_arms(arm)
        prompts = [
            request(f"{arm}/{kind}/{temperature}", temperature=temperature, top_k=12, top_p=0.9, logprobs=kind)
            for kind in LogprobKind
            for temperature in (0.7, 0.0)
        ]
        answers = await asyncio.gather(*(answer(engine, one) for one in prompts))
        found += [
            Reported(request_id=one.request_id, answer=generated, expected=expected_logprobs(target, one, generated))
            for one, generated in zip(prompts, answers, strict=True)
        ]
    return found


@torch.no_grad()
def expected_logprobs(target: Path, prompt: Prompt, generated: TokenChunk) -> list[float]:
    """Return transformers' log-probabilities of an answer's tokens, of the kind that was asked for."""
    sampling = prompt.sampling
    logits = models.load(target)(torch.tensor([[*prompt.token_ids, *generated.token_ids]])).logits[0]
    logits = logits[len(prompt.token_ids) - 1 : -1]
    scaled = logits / (sampling.temperature or 1.0)
    rows: Tensor
    match sampling.logprobs:
        case LogprobKind.POLICY:
            rows = scaled.log_softmax(-1)
        case LogprobKind.RAW:
            rows = logits.log_softmax(-1)
        case LogprobKind.TRUNCATED:
            one = torch.ones(len(logits))
            kept = sampling.top_k if sampling.temperature else 1
            cuts = Cuts(top_ks=one.int() * kept, top_ps=one * sampling.top_p, min_ps=one * 0)
            rows = truncate(scaled.softmax(-1), cuts).log()
    return [float(row[token]) for row, token in zip(rows, generated.token_ids, strict=True)]


async def _resumed(engine: SglangEngine) -> Resumed:
    """Answer requests, then resume the same answers from their first tokens; capture a resumed one."""
    settings_by_name: dict[str, dict[str, Any]] = {
        "greedy": {"temperature": 0.0},
        "seeded": {"seed": 3},
        "filtered": {"seed": 4, **SETTINGS["filtered"]},
        "penalized": {"seed": 5, "frequency_penalty": 0.5, "repetition_penalty": 1.3},
        "minimum": {"temperature": 0.0, "min_new_tokens": 25, "stop_token_ids": STOPS, "ignore_eos": False},
    }
    engine.force_arms(*ARMS)
    whole = {
        name: await answer(engine, request(f"{name}/whole", **sampling)) for name, sampling in settings_by_name.items()
    }
    engine.set_capture(CapturePolicy(enabled=True, frame_tokens=512))
    await answer(engine, request("warm", max_new_tokens=2))
    rest = {
        name: await answer(engine, request(f"{name}/rest", prefix=whole[name].token_ids[:PREFIX_TOKENS], **sampling))
        for name, sampling in settings_by_name.items()
    }
    captured = [frame for frame in await frames(engine) if frame.header.request_id == "greedy/rest"]
    engine.set_capture(CapturePolicy(enabled=False))
    return Resumed(whole=whole, rest=rest, frames=captured)
