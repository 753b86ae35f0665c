"""Seeds, penalties, kinds of logprobs and resumed responses, under every kind of arm and all of them in turn."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import models  # type: ignore[import-not-found] # beside this script
import scenes  # type: ignore[import-not-found] # beside this script
import torch
from torch import Tensor

from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import RequestId
from tlt_common.domain.rollout import LogprobKind, Prompt, SamplingParams, Speculation, TokenChunk
from tlt_common.domain.strategy import arm_named
from tlt_worker.engine.filters import Cuts, truncate
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

ARMS = ("off", "chain-3", "chain-7", "chain-7-top1", "tree-3x4-8", "ngram-4")
FILTERED: dict[str, Any] = {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.02}
SETTINGS: dict[str, dict[str, Any]] = {"plain": {}, "filtered": FILTERED}
LENGTH = 40
STOPPED_AT = 17
STOPS = tuple(range(20, 64))


async def exact(work: Path) -> dict[str, Any]:
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    options = EngineOptions(
        model=target,
        drafter=drafter,
        dtype="float32",
        max_running=16,
        context_length=256,
        seed=1,
        arms=tuple(map(arm_named, ARMS)),
    )
    outcome: dict[str, Any] = {}
    async with scenes.engine(options) as made:
        outcome["seeded"] = await _seeded(made)
        outcome["penalised"] = await _penalised(made, target)
        outcome["kinds"] = await _kinds(made, target)
        outcome["resumed"] = await _resumed(made)
    return outcome


def ask(name: str, *, at: int = 0, prefix: tuple[int, ...] = (), **sampling: Any) -> Prompt:
    settings = SamplingParams(**{"max_new_tokens": LENGTH, "ignore_eos": True, **sampling})
    ids = tuple(range(3 + at, 12 + 2 * at))
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=settings, prefix_token_ids=prefix)


async def _seeded(made: SglangEngine) -> dict[str, dict[str, list[TokenChunk]]]:
    """Four seeded requests beside others, under each arm; then one of them alone."""
    told: dict[str, dict[str, list[TokenChunk]]] = {}
    for kind, settings in SETTINGS.items():
        told[kind] = {}
        for arm in (*ARMS, "all"):
            made.force_arms(*(ARMS if arm == "all" else (arm,)))
            asked = [ask(f"{kind}/{arm}/{seed}", at=seed, seed=seed, **settings) for seed in range(4)]
            others = [
                ask(f"{kind}/{arm}/unseeded", top_k=5),
                ask(f"{kind}/{arm}/penalised", frequency_penalty=0.5, seed=9),
                ask(f"{kind}/{arm}/greedy", temperature=0.0),
            ]
            answers = await asyncio.gather(*(scenes.answer(made, one) for one in (*asked, *others)))
            told[kind][arm] = answers[:4]
        told[kind]["alone"] = [await scenes.answer(made, ask(f"{kind}/alone", at=2, seed=2, **settings))]
        unseeded = [ask(f"{kind}/apart/{place}", at=2, **settings) for place in range(4)]
        told[kind]["unseeded"] = list(await asyncio.gather(*(scenes.answer(made, one) for one in unseeded)))
    return told


async def _penalised(made: SglangEngine, target: Path) -> dict[str, Any]:
    """Greedy requests with penalties beside one without, all under a long chain; what transformers' logits say."""
    made.force_arms("chain-7")
    wanted: dict[str, dict[str, Any]] = {
        "frequency": {"frequency_penalty": 0.5},
        "presence": {"presence_penalty": 0.8},
        "repetition": {"repetition_penalty": 1.6},
        "least": {"min_new_tokens": 12, "stop_token_ids": STOPS, "ignore_eos": False},
        "all": {"frequency_penalty": 0.3, "presence_penalty": 0.2, "repetition_penalty": 1.2},
    }
    asked = [ask(name, temperature=0.0, **settings) for name, settings in wanted.items()]
    declined = replace(ask("declined", temperature=0.0), speculation=Speculation.OFF)
    free = ask("free", temperature=0.0)
    answers = await asyncio.gather(*(scenes.answer(made, one) for one in (*asked, declined, free)))
    return {
        "said": dict(zip((*wanted, "declined", "free"), answers, strict=True)),
        "expected": {one.request_id: _greedy(target, one) for one in (*asked, declined, free)},
    }


@torch.no_grad()
def _greedy(target: Path, prompt: Prompt) -> list[int]:
    """Greedy decoding written out, one token at a time."""
    model, sampling, said = models.load(target), prompt.sampling, list[int]()
    while len(said) < LENGTH and not (said and said[-1] in sampling.stop_token_ids):
        logits = model(torch.tensor([[*prompt.token_ids, *said]])).logits[0, -1]
        for token in set(said):
            logits[token] -= sampling.frequency_penalty * said.count(token) + sampling.presence_penalty
            strength = sampling.repetition_penalty
            logits[token] = logits[token] * strength if logits[token] < 0 else logits[token] / strength
        if len(said) < sampling.min_new_tokens:
            logits[[*sampling.stop_token_ids, model.config.eos_token_id]] = float("-inf")
        said.append(int(logits.argmax()))
    return said


async def _kinds(made: SglangEngine, target: Path) -> list[tuple[str, TokenChunk, list[float]]]:
    """Every kind at once, sampled and greedy, with and without drafts; what transformers says of the same tokens."""
    found: list[tuple[str, TokenChunk, list[float]]] = []
    for arm in ("off", "chain-7", "tree-3x4-8"):
        made.force_arms(arm)
        asked = [
            ask(f"{arm}/{kind}/{temperature}", temperature=temperature, top_k=12, top_p=0.9, logprobs=kind)
            for kind in LogprobKind
            for temperature in (0.7, 0.0)
        ]
        answers = await asyncio.gather(*(scenes.answer(made, one) for one in asked))
        found += [
            (one.request_id, said, _logprobs(target, one, said)) for one, said in zip(asked, answers, strict=True)
        ]
    return found


@torch.no_grad()
def _logprobs(target: Path, prompt: Prompt, said: TokenChunk) -> list[float]:
    sampling = prompt.sampling
    logits = models.load(target)(torch.tensor([[*prompt.token_ids, *said.token_ids]])).logits[0]
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
    return [float(row[token]) for row, token in zip(rows, said.token_ids, strict=True)]


async def _resumed(made: SglangEngine) -> dict[str, Any]:
    """Responses made in one go, and again behind their first tokens; the hidden states of one that went on."""
    wanted: dict[str, dict[str, Any]] = {
        "greedy": {"temperature": 0.0},
        "seeded": {"seed": 3},
        "filtered": {"seed": 4, **SETTINGS["filtered"]},
        "penalised": {"seed": 5, "frequency_penalty": 0.5, "repetition_penalty": 1.3},
        "least": {"temperature": 0.0, "min_new_tokens": 25, "stop_token_ids": STOPS, "ignore_eos": False},
    }
    made.force_arms(*ARMS)
    whole = {name: await scenes.answer(made, ask(f"{name}/whole", **sampling)) for name, sampling in wanted.items()}
    made.set_capture(CapturePolicy(enabled=True, frame_tokens=512))
    await scenes.answer(made, ask("warm", max_new_tokens=2))
    rest = {
        name: await scenes.answer(made, ask(f"{name}/rest", prefix=whole[name].token_ids[:STOPPED_AT], **sampling))
        for name, sampling in wanted.items()
    }
    frames = [frame for frame in await scenes.frames(made) if frame.request_id == "greedy/rest"]
    made.set_capture(CapturePolicy(enabled=False))
    return {"whole": whole, "rest": rest, "frames": frames}
