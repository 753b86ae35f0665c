"""Runs of an engine. Each scene returns plain values for `judge.py` and the tests."""

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, cast
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from tests.engine import block, models
from tests.lossless import cases
from tests.lossless.cases import SETTINGS, Phase, Size
from tests.lossless.exact import TOKENS
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import TokenChunk
from tlt_common.drafter.heads import HEADS
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.link.settings import LinkSettings

AT_ONCE = 256
GREEDY_AT_ONCE = 24
"""Few enough that batches shrink and grow while responses are generated."""
SWAP_S = 0.05
_seeds = itertools.count()
"""A seed per seeded response: over many of them the distribution is the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Responses of one setting."""

    tokens: npt.NDArray[np.int64]
    """The first tokens of each response: [N, TOKENS]."""
    accept_length: float
    """Accepted drafts and the bonus token per verification round, over all responses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete response."""

    prompt: Prompt
    chunk: TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """All responses of one phase."""

    drawn: dict[str, Drawn]
    long: list[Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteResult:
    """All responses of the suite's engine."""

    target: Path
    greedy_target: Path
    phases: dict[str, PhaseResult]
    greedy: dict[str, list[Answer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnResult:
    """Short responses of an engine of its own."""

    target: Path
    drawn: dict[str, Drawn]
    """By setting."""


@asynccontextmanager
async def engine(
    target: Path, *, lossless: bool = True, dtype: Literal["float32", "bfloat16"] = "float32"
) -> AsyncIterator[SglangEngine]:
    config = EngineConfig(
        dtype=dtype, arms=tuple(arm.name for arm in cases.ENGINE_ARMS), max_running=AT_ONCE, context_length=192
    )
    async with started(SglangEngine(target, config, Experiment(seed=1, lossless=lossless))) as made:
        yield made


@asynccontextmanager
async def started(made: SglangEngine) -> AsyncIterator[SglangEngine]:
    try:
        await made.start()
        yield made
    finally:
        await made.aclose()


OWN = "own"
KINDS = {cases.GOOD: (0.02, 1.0), cases.RANDOM: (0.2, 0.0), cases.WRONG: (0.02, -1.0)}
"""Noise and gain of drafters, see `models.write_drafter`."""


class Drafters:
    """Drafters to swap in: one that is often right, a random one, and one that is always wrong."""

    def __init__(self, work: Path, target: Path) -> None:
        self._paths = {
            name: models.write_drafter(work / name, target, noise=noise, gain=gain)
            for name, (noise, gain) in KINDS.items()
        }
        self._version = 0

    async def load(self, made: SglangEngine, name: str) -> None:
        self._version += 1
        await made.load_drafter(self._paths[name], DrafterVersion(self._version))


async def answer(made: SglangEngine, prompt: Prompt) -> TokenChunk:
    whole: TokenChunk | None = None
    async for chunk in made.generate(prompt):
        whole = chunk if whole is None else whole.followed_by(chunk)
    assert whole is not None
    return whole


async def answers(made: SglangEngine, prompts: Iterable[Prompt], at_once: int = AT_ONCE) -> list[Answer]:
    """Answer all prompts with at most `at_once` in flight."""
    waiting = iter(prompts)

    async def one_by_one() -> list[Answer]:
        return [Answer(prompt=prompt, chunk=await answer(made, prompt)) for prompt in waiting]

    return list(itertools.chain(*await asyncio.gather(*(one_by_one() for _ in range(at_once)))))


async def whole(work: Path, size: Size) -> SuiteResult:
    """Run every phase, then greedy responses of another policy, in one engine."""
    target = write_target(work)
    # Layers contribute more, so there are fewer repetitions: a wrong cache entry would show.
    greedy_target = models.write_target(work / "greedy", vocabulary=cases.VOCABULARY, weight=0.16)
    drafters = Drafters(work, target)
    async with engine(target) as made:
        phases = {phase.name: await _run_phase(made, phase, size, drafters) for phase in cases.PHASES}
        await made.load_weights(greedy_target, PolicyVersion(1))
        greedy = await _greedy(made, size, Drafters(work / "greedy-drafters", greedy_target))
    return SuiteResult(target=target, greedy_target=greedy_target, phases=phases, greedy=greedy)


def write_target(work: Path) -> Path:
    return models.write_target(work / "target", vocabulary=cases.VOCABULARY, weight=0.1, head=0.6)


async def forgotten(work: Path, size: Size) -> DrawnResult:
    """
    Draw with a drafter that mostly has nothing to continue from: it keeps the state of one skipped position only.

    Off and a sampled chain run in turn, so after each round off all requests but one draft without a state. The first
    response is alone in its rounds, so that it drafts with one.
    """
    target = write_target(work)
    short_memory = patch("tlt_worker.engine.sglang.LinkSettings", partial(LinkSettings, backlog_bytes=1))
    with short_memory:
        async with engine(target) as made:
            await Drafters(work, target).load(made, cases.GOOD)
            made.force_arms("off", "chain-3")
            await draw(made, ["T 1.0"], 1)
            return DrawnResult(target=target, drawn=await draw(made, ["T 1.0", "T 0.6 top-p 0.9"], size.draws))


@dataclass(frozen=True, slots=True, kw_only=True)
class HalfResult:
    """Short responses of an engine in bfloat16."""

    target: Path
    plain: dict[str, Drawn]
    drafted: dict[str, Drawn]
    """Under all arms in turn."""


async def half(work: Path, size: Size) -> HalfResult:
    """Draw in bfloat16, with all arms in turn and without drafts."""
    target, settings = write_target(work), ["T 1.0", "T 0.6", cases.SEEDED, *cases.FILTERED]
    async with engine(target, dtype="bfloat16") as made:
        await Drafters(work, target).load(made, cases.GOOD)
        made.force_arms("off")
        plain = await draw(made, settings, size.draws)
        made.force_arms(*cases.ARMS)
        return HalfResult(target=target, plain=plain, drafted=await draw(made, settings, size.draws))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksResult:
    """Short responses of an engine with block drafters."""

    target: Path
    drawn: dict[str, dict[str, Drawn]]
    """By drafter and arms, then by setting."""


async def dflash(work: Path, size: Size) -> BlocksResult:
    """Draw with blocks whose drafts are independent of each other."""
    return await _blocks(work, size, replace(block.DFLASH, layers=(0, 2)))


async def dspark(work: Path, size: Size) -> BlocksResult:
    """Draw with blocks whose drafts depend on the one before."""
    return await _blocks(work, size, replace(block.DSPARK, layers=(0, 2)))


async def _blocks(work: Path, size: Size, kind: block.Kind) -> BlocksResult:
    target = block.write_target(
        work / "target", vocabulary=cases.VOCABULARY, layers=4, kv_heads=4, weight=0.1, head=0.6
    )
    drafters = {
        name: block.write_drafter(work / name, target, kind, noise=noise, gain=gain)
        for name, (noise, gain) in KINDS.items()
    }
    config = EngineConfig(
        drafter=drafters[cases.GOOD], dtype="float32", arms=cases.BLOCKS, max_running=AT_ONCE, context_length=192
    )
    drawn, turns = {}, itertools.count(2)
    async with started(SglangEngine(target, config, Experiment(seed=1))) as made:
        for name, directory in drafters.items():
            await made.load_drafter(directory, DrafterVersion(next(turns)))
            for arms in (("block-7",), cases.BLOCKS):
                made.force_arms(*arms)
                drawn[f"{name}, {' '.join(arms)}"] = await draw(made, size.settings, size.draws // 2)
    return BlocksResult(target=target, drawn=drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadResult:
    """Short responses of an engine whose drafter is the head of its checkpoint, under all arms in turn."""

    target: Path
    drawn: dict[str, dict[str, Drawn]]
    """By drafter: the checkpoint's own, and those that took its place."""


async def heads(work: Path, size: Size) -> dict[str, HeadResult]:
    """Draw with the head that a checkpoint brings, and others in its place, for each family that has one."""
    return {row.model_type: await _head(work / row.model_type, row.model_type, size) for row in HEADS.values()}


async def _head(work: Path, family: str, size: Size) -> HeadResult:
    target = models.write_target(
        work / "target", vocabulary=cases.VOCABULARY, weight=0.1, head=0.6, layers=3, family=family
    )
    models.write_head(target, noise=0.02)
    settings, drawn = ["T 1.0", cases.SEEDED, *cases.FILTERED], dict[str, dict[str, Drawn]]()
    async with engine(target) as made:
        made.force_arms(*cases.ARMS)
        drawn[OWN] = await draw(made, settings, size.draws // 2)
        for version, (name, (noise, gain)) in enumerate(KINDS.items(), 1):
            path = models.write_published_head(work / name, target, noise=noise, gain=gain)
            await made.load_drafter(path, DrafterVersion(version))
            drawn[name] = await draw(made, settings, size.draws // 2)
    return HeadResult(target=target, drawn=drawn)


async def broken(work: Path, size: Size) -> DrawnResult:
    """Sample short responses with chains of 3 from an engine with the plug-in `broken.install`."""
    target = write_target(work)
    async with engine(target) as made:
        return DrawnResult(target=target, drawn=await _draw_chains(made, work, target, size))


async def unpatched(work: Path, size: Size) -> DrawnResult:
    """Same, with SGLang's own verification."""
    target = write_target(work)
    async with engine(target, lossless=False) as made:
        return DrawnResult(target=target, drawn=await _draw_chains(made, work, target, size))


async def _draw_chains(made: SglangEngine, work: Path, target: Path, size: Size) -> dict[str, Drawn]:
    await Drafters(work, target).load(made, cases.GOOD)
    made.force_arms("chain-3")
    # Seeded requests draw with their noise, not by the rule that is wrong here.
    return await draw(made, (setting for setting in size.settings if setting != cases.SEEDED), size.draws)


async def _run_phase(made: SglangEngine, phase: Phase, size: Size, drafters: Drafters) -> PhaseResult:
    await drafters.load(made, phase.drafter)
    made.force_arms(*phase.arms)
    drawn = await draw(made, size.settings, size.draws)
    long = (
        _prompt(f"long/{n}", random.Random(n), 12, replace(SETTINGS[setting], max_new_tokens=cases.LONG_TOKENS))
        for n, setting in zip(range(size.long_answers), itertools.cycle(size.settings), strict=False)
    )
    return PhaseResult(drawn=drawn, long=await answers(made, long))


async def draw(made: SglangEngine, settings: Iterable[str], draws: int) -> dict[str, Drawn]:
    """Answer one prompt repeatedly; requests of all settings share batches."""
    names = tuple(settings)
    prompts = (
        Prompt(
            request_id=RequestId(f"{setting}/{n}"),
            token_ids=cases.PROMPT,
            sampling=replace(SETTINGS[setting], seed=next(_seeds)) if setting == cases.SEEDED else SETTINGS[setting],
        )
        for n in range(draws)
        for setting in names
    )
    by_setting: dict[str, list[TokenChunk]] = {setting: [] for setting in names}
    for each in await answers(made, prompts):
        by_setting[each.prompt.request_id.rpartition("/")[0]].append(each.chunk)
    return {setting: _drawn(chunks) for setting, chunks in by_setting.items()}


def _drawn(chunks: list[TokenChunk]) -> Drawn:
    kept = sum(chunk.stats.accepted_draft_tokens for chunk in chunks if chunk.stats)
    rounds = sum(chunk.stats.rounds - 1 for chunk in chunks if chunk.stats)  # the first token comes from prefill
    return Drawn(
        tokens=np.array([chunk.token_ids[:TOKENS] for chunk in chunks], dtype=np.int64), accept_length=1 + kept / rounds
    )


async def _greedy(made: SglangEngine, size: Size, drafters: Drafters) -> dict[str, list[Answer]]:
    """Answer the same prompts with each drafter, and with changing drafters while responses are aborted and resumed."""
    sampling = SamplingParams(temperature=0.0, ignore_eos=True)
    chance = random.Random(7)
    prompts = [
        _prompt(f"greedy/{n}", chance, chance.randint(3, 40), replace(sampling, max_new_tokens=chance.randint(40, 96)))
        for n in range(size.greedy_prompts)
    ]
    made.force_arms(*cases.ARMS)
    by_drafter = {}
    for name in (cases.GOOD, cases.RANDOM, cases.WRONG):
        await drafters.load(made, name)
        by_drafter[name] = await answers(made, prompts, GREEDY_AT_ONCE)
    swapping = asyncio.create_task(_swap(made, drafters))
    try:
        by_drafter["swapped"] = await answers(made, prompts, GREEDY_AT_ONCE)
        waiting = iter(prompts)
        by_drafter["swapped, aborted and resumed"] = list(
            itertools.chain(*await asyncio.gather(*(_interrupted(made, waiting) for _ in range(GREEDY_AT_ONCE))))
        )
    finally:
        swapping.cancel()
    return by_drafter


async def _swap(made: SglangEngine, drafters: Drafters) -> None:
    for name in itertools.cycle((cases.GOOD, cases.WRONG, cases.GOOD, cases.RANDOM)):
        await drafters.load(made, name)
        await asyncio.sleep(SWAP_S)


async def _interrupted(made: SglangEngine, prompts: Iterator[Prompt]) -> list[Answer]:
    """Abort each response midway, as a lost connection would, and resume from its tokens."""
    found = []
    for prompt in prompts:
        received = await _beginning(made, prompt, tokens=8 + len(prompt.token_ids) % 29)
        if received.finish_reason is None:
            name = RequestId(f"{prompt.request_id}/resumed")
            rest = await answer(made, replace(prompt, request_id=name, prefix_token_ids=received.token_ids))
            received = received.followed_by(rest)
        found.append(Answer(prompt=prompt, chunk=received))
    return found


async def _beginning(made: SglangEngine, prompt: Prompt, tokens: int) -> TokenChunk:
    received: TokenChunk | None = None
    # Closing aborts the request.
    async with aclosing(cast("AsyncGenerator[TokenChunk]", made.generate(prompt))) as chunks:
        async for chunk in chunks:
            received = chunk if received is None else received.followed_by(chunk)
            if len(received.token_ids) >= tokens:
                break
    assert received is not None
    return received


def _prompt(name: str, chance: random.Random, length: int, sampling: SamplingParams) -> Prompt:
    ids = tuple(chance.randrange(2, cases.VOCABULARY) for _ in range(length))
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=sampling)
