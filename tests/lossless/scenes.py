"""What happens in an engine. Each scene returns plain values for `judge.py` and the tests."""

import asyncio
import itertools
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt

from tests.engine import models
from tests.lossless import cases
from tests.lossless.cases import SETTINGS, Phase, Size
from tests.lossless.exact import TOKENS
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.rollout import Prompt, SamplingParams, TokenChunk
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine

AT_ONCE = 256
GREEDY_AT_ONCE = 24
"""Few enough for batches to shrink and grow while answers run."""
SWAP_S = 0.05
_seeds = itertools.count()
"""Each seeded answer has its own: over many the distribution is the target's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Answers of one setting."""

    tokens: npt.NDArray[np.int64]
    """The first tokens of each answer: [N, TOKENS]."""
    accept_length: float
    """Drafts kept and the bonus token per verification round, over all answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A whole answer."""

    prompt: Prompt
    chunk: TokenChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """All that was said in one phase."""

    drawn: dict[str, Drawn]
    long: list[Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the suite's engine said."""

    target: Path
    greedy_target: Path
    phases: dict[str, Played]
    greedy: dict[str, list[Answer]]


@asynccontextmanager
async def engine(options: EngineOptions) -> AsyncIterator[SglangEngine]:
    made = SglangEngine(options)
    try:
        await made.start()
        yield made
    finally:
        await made.aclose()


def options(target: Path, *, lossless: bool = True) -> EngineOptions:
    return EngineOptions(
        model=target, dtype="float32", arms=cases.ENGINE_ARMS, max_running=AT_ONCE, context_length=192, seed=1,
        lossless=lossless,
    )  # fmt: skip


class Drafters:
    """Drafters to swap in: one that is often right, one that knows nothing, one that is always wrong."""

    def __init__(self, work: Path, target: Path) -> None:
        kinds = {cases.GOOD: (0.02, 1.0), cases.RANDOM: (0.2, 0.0), cases.WRONG: (0.02, -1.0)}
        self._paths = {
            name: models.write_drafter(work / name, target, noise=noise, gain=gain)
            for name, (noise, gain) in kinds.items()
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
    """Answer all, so many at once: when one ends the next begins."""
    waiting = iter(prompts)

    async def one_by_one() -> list[Answer]:
        return [Answer(prompt=prompt, chunk=await answer(made, prompt)) for prompt in waiting]

    return list(itertools.chain(*await asyncio.gather(*(one_by_one() for _ in range(at_once)))))


async def whole(work: Path, size: Size) -> Told:
    """Every phase, then greedy answers of another policy, in one engine."""
    target = write_target(work)
    # Layers add more: fewer loops, so that a cache with a wrong entry would show.
    greedy_target = models.write_target(work / "greedy", vocabulary=cases.VOCABULARY, weight=0.16)
    drafters = Drafters(work, target)
    async with engine(options(target)) as made:
        phases = {phase.name: await _play(made, phase, size, drafters) for phase in cases.PHASES}
        await made.load_weights(greedy_target, PolicyVersion(1))
        greedy = await _greedy(made, size, Drafters(work / "greedy-drafters", greedy_target))
    return Told(target=target, greedy_target=greedy_target, phases=phases, greedy=greedy)


def write_target(work: Path) -> Path:
    return models.write_target(work / "target", vocabulary=cases.VOCABULARY, weight=0.1, head=0.6)


async def broken(work: Path, size: Size) -> tuple[Path, dict[str, Drawn]]:
    """Short answers of an engine that runs with the plug-in `broken.install`, chains of 3."""
    target = write_target(work)
    async with engine(options(target)) as made:
        return target, await _draw_chains(made, work, target, size)


async def unpatched(work: Path, size: Size) -> tuple[Path, dict[str, Drawn]]:
    """The same with SGLang's own verification."""
    target = write_target(work)
    async with engine(options(target, lossless=False)) as made:
        return target, await _draw_chains(made, work, target, size)


async def _draw_chains(made: SglangEngine, work: Path, target: Path, size: Size) -> dict[str, Drawn]:
    await Drafters(work, target).load(made, cases.GOOD)
    made.force_arms("chain-3")
    # A seed decides by its noise, not by the rule that is wrong here.
    return await draw(made, (setting for setting in size.settings if setting != cases.SEEDED), size.draws)


async def _play(made: SglangEngine, phase: Phase, size: Size, drafters: Drafters) -> Played:
    await drafters.load(made, phase.drafter)
    made.force_arms(*phase.arms)
    drawn = await draw(made, size.settings, size.draws)
    long = (
        _prompt(f"long/{n}", random.Random(n), 12, replace(SETTINGS[setting], max_new_tokens=cases.LONG_TOKENS))
        for n, setting in zip(range(size.long_answers), itertools.cycle(size.settings), strict=False)
    )
    return Played(drawn=drawn, long=await answers(made, long))


async def draw(made: SglangEngine, settings: Iterable[str], draws: int) -> dict[str, Drawn]:
    """Answer one prompt again and again; requests of all settings share batches."""
    names = tuple(settings)
    asked = (
        Prompt(
            request_id=RequestId(f"{setting}/{n}"),
            token_ids=cases.PROMPT,
            sampling=replace(SETTINGS[setting], seed=next(_seeds)) if setting == cases.SEEDED else SETTINGS[setting],
        )
        for n in range(draws)
        for setting in names
    )
    said: dict[str, list[TokenChunk]] = {setting: [] for setting in names}
    for each in await answers(made, asked):
        said[each.prompt.request_id.rpartition("/")[0]].append(each.chunk)
    return {setting: _drawn(chunks) for setting, chunks in said.items()}


def _drawn(chunks: list[TokenChunk]) -> Drawn:
    kept = sum(chunk.stats.accepted_draft_tokens for chunk in chunks if chunk.stats)
    rounds = sum(chunk.stats.rounds - 1 for chunk in chunks if chunk.stats)  # the first token comes from prefill
    return Drawn(
        tokens=np.array([chunk.token_ids[:TOKENS] for chunk in chunks], dtype=np.int64), accept_length=1 + kept / rounds
    )


async def _greedy(made: SglangEngine, size: Size, drafters: Drafters) -> dict[str, list[Answer]]:
    """The same prompts with each drafter, and with drafters that change while answers are aborted and resumed."""
    sampling = SamplingParams(temperature=0.0, ignore_eos=True)
    chance = random.Random(7)
    asked = [
        _prompt(f"greedy/{n}", chance, chance.randint(3, 40), replace(sampling, max_new_tokens=chance.randint(40, 96)))
        for n in range(size.greedy_prompts)
    ]
    made.force_arms(*cases.ARMS)
    said = {}
    for name in (cases.GOOD, cases.RANDOM, cases.WRONG):
        await drafters.load(made, name)
        said[name] = await answers(made, asked, GREEDY_AT_ONCE)
    swapping = asyncio.create_task(_swap(made, drafters))
    try:
        said["swapped"] = await answers(made, asked, GREEDY_AT_ONCE)
        waiting = iter(asked)
        said["swapped, aborted and resumed"] = list(
            itertools.chain(*await asyncio.gather(*(_interrupted(made, waiting) for _ in range(GREEDY_AT_ONCE))))
        )
    finally:
        swapping.cancel()
    return said


async def _swap(made: SglangEngine, drafters: Drafters) -> None:
    for name in itertools.cycle((cases.GOOD, cases.WRONG, cases.GOOD, cases.RANDOM)):
        await drafters.load(made, name)
        await asyncio.sleep(SWAP_S)


async def _interrupted(made: SglangEngine, prompts: Iterator[Prompt]) -> list[Answer]:
    """Abort each answer somewhere in its middle, as a lost connection would, and go on from what was said."""
    found = []
    for prompt in prompts:
        said = await _beginning(made, prompt, tokens=8 + len(prompt.token_ids) % 29)
        if said.finish_reason is None:
            name = RequestId(f"{prompt.request_id}/resumed")
            rest = await answer(made, replace(prompt, request_id=name, prefix_token_ids=said.token_ids))
            said = said.followed_by(rest)
        found.append(Answer(prompt=prompt, chunk=said))
    return found


async def _beginning(made: SglangEngine, prompt: Prompt, tokens: int) -> TokenChunk:
    said: TokenChunk | None = None
    # Closing aborts the request.
    async with aclosing(cast("AsyncGenerator[TokenChunk]", made.generate(prompt))) as chunks:
        async for chunk in chunks:
            said = chunk if said is None else said.followed_by(chunk)
            if len(said.token_ids) >= tokens:
                break
    assert said is not None
    return said


def _prompt(name: str, chance: random.Random, length: int, sampling: SamplingParams) -> Prompt:
    ids = tuple(chance.randrange(2, cases.VOCABULARY) for _ in range(length))
    return Prompt(request_id=RequestId(name), token_ids=ids, sampling=sampling)
