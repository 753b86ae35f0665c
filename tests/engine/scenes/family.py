"""Everything that is promised of a family in the table, in one engine; and an engine whose owner is killed."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from tests.engine import models
from tests.engine.scenes import capture
from tests.engine.scenes.answers import accepted, stats
from tests.engine.scenes.engine import PROMPT, answer, frames, prompt, running
from tests.integration.trainer.peers import Bench
from tests.lossless import cases
from tests.lossless.scenes import Drawn, draw
from tlt_common.client.tensors import stream
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.weights.spool import Spool
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.model.families import FAMILIES

CASE = "case.json"
"""In the scene's folder: the family, by `architectures`, and the kind of drafter."""
ARMS = ("off", "chain-3", "chain-3-top1", "ngram-4")
BLOCKS = ("off", "block-3", "block-7", "ngram-4")
"""The first that drafts is the one that figures are about."""
TREES = ("tree-3x4-8",)
LAYERS = (0, 1)
RESPONSES, LENGTH, STEPS = 32, 64, 60
TRAINING_S = 400.0
"""Timeout of these steps: they take 20 s on an idle core, and share it with engines."""
SETTINGS = ("T 1.0", "T 0.6 top-p 0.9", cases.SEEDED)
DRAWS = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """New weights during a greedy answer, and afterwards."""

    in_flight: TokenChunk
    fresh: TokenChunk
    expected: dict[int, list[int]]
    """By policy version, transformers' choice at each position of `in_flight`."""
    fresh_expected: list[int]
    sent: TokenChunk
    """A greedy answer under weights that came as tensors."""
    sent_expected: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnHead:
    """What a checkpoint's own head drafted: accepted drafts per round of chains of 3, over greedy answers."""

    first: float
    """Before any drafter was published."""
    before: float
    """As a spot trainer adapted it."""
    after: float
    """Likewise, after weights came and went whose checkpoint has another head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyResult:
    """What an engine made of a model of the family."""

    captured: capture.Captured
    greedy: list[TokenChunk]
    """With the trained drafter, under each arm, and all of them in turn."""
    greedy_expected: list[list[int]]
    accepted: float
    """Drafts kept per round of up to 3, by a drafter trained on captured states."""
    seeded: dict[str, tuple[int, ...]]
    """One seeded answer, by arm."""
    drawn: dict[str, Drawn]
    """Short responses under all arms in turn, by setting."""
    target: Path
    update: Update
    head: OwnHead | None = None
    """Of a family whose checkpoints bring one, where that is the drafter."""


async def family(work: Path) -> FamilyResult:
    """Capture, train, draft, draw and update, as `CASE` says."""
    case = json.loads((work / CASE).read_text())
    row, kind = FAMILIES[case["family"]], DrafterArchitecture(case["kind"])
    is_block = kind is DrafterArchitecture.BLOCK
    arms = BLOCKS if is_block else ARMS + (TREES if row.draws_trees else ())
    target, newer, newest = (_written(work / name, row.model_type, seed) for name, seed in _SEEDS.items())
    drafter: dict[str, Any] = {"drafter_architecture": kind}
    brings_head = kind is DrafterArchitecture.MTP
    if brings_head:
        for path, gain in ((target, 1.0), (newer, -1.0)):
            models.write_head(path, noise=0.05, gain=gain)
    if kind is DrafterArchitecture.EAGLE3:
        drafter |= {"draft_vocabulary": 24, "drafter_layers": LAYERS}
    if is_block:
        drafter |= {"drafter_layers": LAYERS}
    chosen = {} if brings_head else drafter  # by the checkpoint
    config = EngineConfig(dtype="float32", max_running=64, context_length=256, arms=arms, **chosen)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(running(target, config, Experiment(seed=1)))
        bench = Bench(target, work, stack, plateau_evaluations=None, **drafter)
        captured = await capture.sampled(engine, target, layers=LAYERS if "drafter_layers" in drafter else ())
        first = _kept(await _greedy(engine, "chain-3")) if brings_head else 0.0
        await _train(engine, bench)
        by_arm = {arm: await _greedy(engine, arm) for arm in arms}
        answers = [*by_arm.values(), await _greedy(engine, *arms)]
        seeded = {arm: await _seeded(engine, arm) for arm in arms}
        engine.force_arms(*arms)
        drawn = await draw(engine, SETTINGS, DRAWS)
        update = await _updated(engine, arms[1], work, target, newer, newest)
        head = await _over_other_heads(engine, first, by_arm["chain-3"], target) if brings_head else None
        return FamilyResult(
            captured=captured,
            greedy=answers,
            greedy_expected=[_choices(target, chunk) for chunk in answers],
            accepted=_kept(by_arm[arms[1]]),
            seeded=seeded,
            drawn=drawn,
            target=target,
            update=update,
            head=head,
        )


_SEEDS = {"target": 11, "newer": 5, "newest": 6}


def _written(directory: Path, family: str, seed: int) -> Path:
    return models.write_target(
        directory, vocabulary=cases.VOCABULARY, layers=3, weight=0.12, head=0.6, seed=seed, family=family
    )


async def _train(engine: SglangEngine, bench: Bench) -> None:
    """Have a spot trainer train on captured responses, and load its drafter."""
    await bench.open()
    engine.force_arms("off")
    engine.set_capture(CapturePolicy(enabled=True, frame_tokens=32))
    prompts = (prompt(f"r{n}", (3 + n % 20, 7, 5, n % 30), max_new_tokens=LENGTH) for n in range(RESPONSES))
    await asyncio.gather(*(answer(engine, one) for one in prompts))
    await bench.put(await frames(engine))
    engine.set_capture(CapturePolicy(enabled=False))
    worker = await bench.worker()
    await worker.start(1)
    await worker.has_made(STEPS, TRAINING_S)
    await bench.coordinator.reached(1)
    await worker.preempt(1)
    last = bench.coordinator.history[-1]
    await engine.load_drafter(Path(last.uri), last.version)


async def _greedy(engine: SglangEngine, *arms: str) -> TokenChunk:
    engine.force_arms(*arms)
    return await answer(engine, prompt("-".join(arms), temperature=0.0, max_new_tokens=LENGTH))


def _kept(chunk: TokenChunk) -> float:
    return accepted([chunk]) / stats(chunk).rounds


async def _over_other_heads(engine: SglangEngine, first: float, adapted: TokenChunk, target: Path) -> OwnHead:
    """Return to the first weights, after others whose checkpoints have another head or none."""
    await engine.load_weights(target, PolicyVersion(3))
    again = await _greedy(engine, "chain-3")
    assert again.token_ids == adapted.token_ids
    return OwnHead(first=first, before=_kept(adapted), after=_kept(again))


async def _seeded(engine: SglangEngine, arm: str) -> tuple[int, ...]:
    engine.force_arms(arm)
    return (await answer(engine, prompt(f"seeded-{arm}", seed=7, max_new_tokens=LENGTH))).token_ids


async def _updated(engine: SglangEngine, arm: str, work: Path, target: Path, newer: Path, newest: Path) -> Update:
    in_flight = await over_an_update(engine, newer, prompt("inflight", temperature=0.0, max_new_tokens=200))
    fresh = await _greedy(engine, arm)
    spool = Spool(work / "spools")
    for chunk in stream(load_file(newest / "model.safetensors")):
        spool.write(chunk)
    spool.complete()
    await engine.load_weights(spool.directory, PolicyVersion(2))
    sent = await _greedy(engine, arm, "off")
    return Update(
        in_flight=in_flight,
        fresh=fresh,
        expected={version: _choices(path, in_flight) for version, path in enumerate((target, newer))},
        fresh_expected=_choices(newer, fresh),
        sent=sent,
        sent_expected=_choices(newest, sent),
    )


async def over_an_update(engine: SglangEngine, newer: Path, asked: Prompt) -> TokenChunk:
    """Return an answer during which the weights change to version 1."""
    whole: TokenChunk | None = None
    async with asyncio.TaskGroup() as group:
        async for chunk in engine.generate(asked):
            if whole is None:
                group.create_task(engine.load_weights(newer, PolicyVersion(1)))
            whole = chunk if whole is None else whole.followed_by(chunk)
    assert whole is not None
    return whole


@torch.no_grad()
def _choices(model: Path, chunk: TokenChunk) -> list[int]:
    """Return transformers' choice at each position of an answer to PROMPT."""
    logits = models.load(model)(torch.tensor([[*PROMPT, *chunk.token_ids]])).logits[0]
    choices: list[int] = logits[len(PROMPT) - 1 : -1].argmax(-1).tolist()
    return choices


async def orphans(work: Path) -> None:
    """Start an engine that never drafts, write its process ids to `work` after an answer, and run until killed."""
    target = models.write_target(work / "target")
    config = EngineConfig(dtype="float32", max_running=4, context_length=64, arms=("off",))
    async with running(target, config) as engine:
        assert len((await answer(engine, prompt("plain", max_new_tokens=8))).token_ids) == 8
        _write_pids(work, engine.child_pids)
        await asyncio.Event().wait()


def _write_pids(work: Path, pids: tuple[int, ...]) -> None:
    (work / "pids.new").write_text(" ".join(map(str, pids)))
    (work / "pids.new").rename(work / "pids")
