"""Block drafters in an engine."""

import asyncio
import itertools
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.engine import block, models
from tests.engine.block import DFLASH, DSPARK, Kind, Reference
from tests.engine.scenes.answers import stats
from tests.engine.scenes.arms import chunk_prompts, with_aborts
from tests.engine.scenes.eagle3 import Captured, Compared, Sampled, captured, greedy, sampled
from tests.engine.scenes.engine import answer, prompt, running
from tests.engine.scenes.switching import RoundWaits, round_waits
from tlt_bench.gpu_loop import settings
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import WeightsError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

ARMS = ("off", "block-3", "block-7", "ngram-4")
MIXED = ("off", "block-3", "off", "ngram-4", "block-7", "off", "off", "block-7")
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 80}
CONTEXT = 512
SEEDS = ({"temperature": 1.0}, {"temperature": 0.8, "top_p": 0.9}, {"temperature": 1.3, "top_k": 8, "min_p": 0.02})


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """An answer to a prompt that ends with an answer the drafter has skipped."""

    cached: TokenChunk
    """With a hit in the prefix cache."""
    uncached: TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockResult:
    """A Qwen3 in an engine with block drafters."""

    off: list[TokenChunk]
    block: Compared
    in_turn: Compared
    storm: list[TokenChunk]
    """The answers of `off`, together, with arms in turn and drafters swapped."""
    aborts: list[TokenChunk]
    """The same while others are aborted."""
    rounds: list[RoundWaits]
    """Rounds up to here; empty in the plain loop."""
    hits: dict[str, Hit]
    """By the arm that skipped the drafter."""
    full_context: dict[str, TokenChunk]
    """Answers that fill the context, by arm."""
    seeded: dict[str, list[TokenChunk]]
    """The same requests with seeds, by arm."""
    sampled: Sampled
    captured: Captured
    refusals: list[str]
    retracted: list[TokenChunk]
    """The answers of `off` while the same weights are loaded again."""


async def dflash(work: Path) -> BlockResult:
    """Drafts that are independent of each other."""
    return await _played(work, DFLASH)


async def dspark(work: Path) -> BlockResult:
    """Drafts that depend on the one before."""
    return await _played(work, DSPARK)


async def ranks(work: Path) -> Compared:
    """A Llama over two ranks, with a drafter whose anchor gives no draft and whose Markov head is gated."""
    kind = Kind(block_size=5, layers=(0, 2), markov="gated", anchored=False)
    target = block.write_target(work / "target", vocabulary=24, hidden=48, layers=4, weight=0.12)
    drafter = block.write_drafter(work / "drafter", target, kind, noise=0.02)
    config = EngineConfig(
        drafter=drafter, dtype="float32", max_running=8, context_length=CONTEXT, tensor_parallel=2,
        arms=("off", "block-2", "block-5"),
    )  # fmt: skip
    async with running(target, config) as engine:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(2)]
        return await _compared(engine, prompts, Reference(drafter, target, kind), (5, 0, 2))


async def _played(work: Path, kind: Kind) -> BlockResult:
    shape: dict[str, Any] = {"vocabulary": 24, "hidden": 48, "layers": 8, "weight": 0.09, "kv_heads": 4}
    target = block.write_target(work / "target", family="qwen3", seed=0, **shape)
    good = block.write_drafter(work / "good", target, kind, noise=0.02)
    other = block.write_drafter(work / "other", target, kind, noise=0.05, seed=4)
    config = EngineConfig(drafter=good, dtype="float32", max_running=256, context_length=CONTEXT, arms=ARMS)
    chunk_prompts(16)
    log = work / "rounds.jsonl"
    if settings.LOOP_VARIABLE in os.environ:
        os.environ[settings.ROUNDS_VARIABLE] = str(log)
    async with running(target, config, Experiment(seed=1)) as engine:
        prompts = [prompt(f"p{i}", tuple(range(3 + i, 10 + 2 * i)), **GREEDY) for i in range(4)]
        prompts.append(prompt("long", tuple(3 + i * i % 19 for i in range(50)), **GREEDY))
        reference = Reference(good, target, kind)
        engine.force_arms("off")
        return BlockResult(
            off=[await answer(engine, one) for one in prompts],
            block=await _compared(engine, prompts, reference, (7,)),
            in_turn=await _compared(engine, prompts, reference, (0, 0, 7, 0, 3)),
            storm=await _storm(engine, prompts, [good, other]),
            aborts=await _with_aborts(engine, prompts),
            rounds=round_waits(log),
            hits={arm: await _hit(engine, target, arm) for arm in ("off", "ngram-4")},
            full_context=await _full_context(engine),
            seeded=await _seeded(engine),
            sampled=await sampled(engine, target, "sampled", ("block-7",)),
            captured=await captured(engine, reference, ("block-3", "off", "ngram-4")),
            refusals=await _refusals(engine, work, target, kind),
            retracted=await _retracted(engine, target, prompts),
        )


async def _compared(
    engine: SglangEngine, prompts: list[Prompt], reference: Reference, arms: tuple[int, ...]
) -> Compared:
    """Answer prompts one by one with blocks of these lengths in turn, 0 for off; count the reference's rounds too."""
    answers, expected = [], []
    for one in prompts:
        engine.force_arms(*(f"block-{length}" if length else "off" for length in arms))
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


_versions = itertools.count(2)


async def _load(engine: SglangEngine, drafter: Path) -> None:
    await engine.load_drafter(drafter, DrafterVersion(next(_versions)))


async def _storm(engine: SglangEngine, prompts: list[Prompt], drafters: list[Path]) -> list[TokenChunk]:
    """Answer prompts together, with arms in turn, while drafters are swapped."""
    engine.force_arms(*MIXED)
    answers = [
        asyncio.create_task(answer(engine, replace(one, request_id=RequestId(f"storm{number}"))))
        for number, one in enumerate(prompts)
    ]
    for drafter in itertools.cycle(reversed(drafters)):
        if all(task.done() for task in answers):
            break
        await _load(engine, drafter)
        await asyncio.sleep(0.05)
    await _load(engine, drafters[0])
    return [await task for task in answers]


async def _with_aborts(engine: SglangEngine, prompts: list[Prompt]) -> list[TokenChunk]:
    engine.force_arms(*MIXED)
    return await with_aborts(engine, prompts)


async def _hit(engine: SglangEngine, target: Path, skipping: str) -> Hit:
    """Send a prompt with a hit on an answer that the drafter skipped; then the same with an empty cache."""
    engine.force_arms(skipping)
    first = prompt(f"first/{skipping}", tuple(range(4 + len(skipping), 16)), temperature=0.0, max_new_tokens=100)
    longer = (*first.token_ids, *(await answer(engine, first)).token_ids)
    engine.force_arms("block-7")
    cached = await answer(engine, prompt(f"cached/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    await engine.load_weights(target, PolicyVersion(1))  # empties the cache
    uncached = await answer(engine, prompt(f"uncached/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    return Hit(cached=cached, uncached=uncached)


async def _full_context(engine: SglangEngine) -> dict[str, TokenChunk]:
    answers = {}
    for name in ("off", "block-7", "ngram-4"):
        engine.force_arms(name)
        whole = prompt(f"full/{name}", tuple(3 + i % 19 for i in range(460)), temperature=0.0)
        answers[name] = await answer(engine, whole.for_model(vocab_size=24, context_length=CONTEXT))
    return answers


async def _seeded(engine: SglangEngine) -> dict[str, list[TokenChunk]]:
    """Answer the same requests with seeds under each arm, alone and in turn."""
    found = {}
    for name, arms in (*((arm, (arm,)) for arm in ARMS), ("in turn", MIXED)):
        engine.force_arms(*arms)
        asked = (
            prompt(f"{name}/{seed}/{number}", (3 + seed, 7, 5), seed=seed, max_new_tokens=40, **sampling)
            for seed in range(6)
            for number, sampling in enumerate(SEEDS)
        )
        found[name] = list(await asyncio.gather(*(answer(engine, one) for one in asked)))
    return found


async def _refusals(engine: SglangEngine, work: Path, target: Path, kind: Kind) -> list[str]:
    """Load drafters that do not fit this engine; return the errors."""
    eagle = models.write_drafter(work / "eagle", target, noise=0.02)
    unlike = [
        block.write_drafter(work / "longer", target, replace(kind, block_size=kind.block_size + 1), noise=0.02),
        block.write_drafter(work / "deeper", target, replace(kind, draft_layers=3), noise=0.02),
        block.write_drafter(work / "headed", target, replace(kind, block_size=7, markov="gated"), noise=0.02),
        block.write_drafter(work / "nan", target, kind, noise=float("nan")),
    ]
    messages = []
    for offered in (eagle, *unlike):
        try:
            await _load(engine, offered)
        except WeightsError as error:
            messages.append(error.message)
    return messages


async def _retracted(engine: SglangEngine, target: Path, prompts: list[Prompt]) -> list[TokenChunk]:
    """Answer prompts together while the target's own weights are loaded anew, which retracts what runs."""
    engine.force_arms(*MIXED)
    answers = [
        asyncio.create_task(answer(engine, replace(one, request_id=RequestId(f"retracted{number}"))))
        for number, one in enumerate(prompts)
    ]
    for version in range(2, 6):
        await asyncio.sleep(0.05)
        await engine.load_weights(target, PolicyVersion(version))
    return [await task for task in answers]
