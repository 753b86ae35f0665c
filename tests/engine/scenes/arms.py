"""Arms of every kind in one engine, switched every round."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.engine import models
from tests.engine.scenes import capture, prompt_logprobs
from tests.engine.scenes.answers import stats
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.hidden import CapturePolicy
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine import sglang
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

NAMES = (
    "off", "chain-3", "tree-3x4-8", "chain-7-top1", "chain-7", "tree-2x2-4", "chain-3-top1", "tree-1x4-4", "ngram-4",
)  # fmt: skip
CYCLE = (
    "off", "chain-3", "tree-3x4-8", "chain-7-top1", "off", "ngram-4", "off", "tree-2x2-4", "ngram-4", "chain-7",
    "tree-1x4-4", "chain-3",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """A request whose prompt ends with an answer the drafter has not processed, with and without the prefix cache."""

    cached: TokenChunk
    """With a hit in the prefix cache."""
    uncached: TokenChunk
    """With an empty prefix cache."""
    accepted_tokens: int
    """Draft tokens accepted in the answer that the drafter skipped."""
    kept_up_tokens: int
    """Tokens the drafter caught up on while that answer was generated."""
    caught_up_tokens: int
    recomputed_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmsResult:
    """Answers of one engine under each arm."""

    greedy: dict[str, list[TokenChunk]]
    """By arm, and for "cycle" and "aborts"."""
    captured: capture.Captured
    after_off: CaughtUp
    after_retrieval: CaughtUp
    full_context: dict[str, TokenChunk]
    """Answers that fill the context, by arm."""
    scored: dict[str, prompt_logprobs.Scored]
    """Log-probabilities of prompts, by arm, and for "cycle" and "retracted"."""


async def mixed(work: Path) -> ArmsResult:
    """Greedy answers under each arm and under all of them in turn, with requests that start, finish and are aborted."""
    target = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    # Enough noise for the drafter's attention to matter.
    drafter = models.write_drafter(work / "drafter", target, noise=0.05)
    config = EngineConfig(drafter=drafter, dtype="float32", max_running=8, context_length=512, arms=NAMES)
    chunk_prompts(16)
    async with running(target, config, Experiment(seed=1)) as engine:
        prompts = [
            prompt(f"p{i}", tuple(range(3 + i, 12 + 2 * i)), temperature=0.0, max_new_tokens=40 + 20 * i)
            for i in range(6)
        ]
        greedy = {}
        for name in NAMES:
            engine.force_arms(name)
            greedy[name] = await _together(engine, name, prompts)
        engine.force_arms(*CYCLE)
        greedy["cycle"] = await _together(engine, "cycle", prompts)
        greedy["aborts"] = await with_aborts(engine, prompts)
        captured = await capture.sampled(engine, target)
        engine.set_capture(CapturePolicy(enabled=False))
        scored = {
            name: await prompt_logprobs.scored(engine, target, CYCLE if name == "cycle" else (name,))
            for name in ("off", "chain-7", "cycle")
        }
        return ArmsResult(
            greedy=greedy,
            captured=captured,
            after_off=await _repeated(engine, target, "off"),
            after_retrieval=await _repeated(engine, target, "ngram-4"),
            full_context=await _full_context(engine),
            scored=scored | {"retracted": await prompt_logprobs.retracted(engine, target)},
        )


async def _repeated(engine: SglangEngine, target: Path, skipping: str) -> CaughtUp:
    """
    Send a prompt with a prefix-cache hit on an answer the drafter skipped; then the same with an empty cache.

    The drafter has not processed the answer. If the backlog completes its cache, both take the same number of rounds.
    """
    engine.force_arms("off", "chain-7")  # leaves at most one round that the drafter skipped
    await answer(engine, prompt(f"before/{skipping}", (1, 2, 3), temperature=0.0, max_new_tokens=20))
    await _reports(engine)
    engine.force_arms(skipping)
    ids = tuple(range(30 - len(skipping), 60 - len(skipping)))  # a different prompt each time: the last one is cached
    first = prompt(f"first/{skipping}", ids, temperature=0.0, max_new_tokens=150)
    skipped = await answer(engine, first)
    meanwhile = await _reports(engine)
    await answer(engine, prompt(f"short/{skipping}", (1, 2), temperature=0.0, max_new_tokens=3))
    meanwhile += await _reports(engine)  # a round this late reports all earlier ones
    longer = (*first.token_ids, *skipped.token_ids)
    engine.force_arms("chain-7")
    cached = await answer(engine, prompt(f"cached/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    reports = [*meanwhile, *await _reports(engine)]
    await engine.load_weights(target, PolicyVersion(1))  # empties the cache
    uncached = await answer(engine, prompt(f"uncached/{skipping}", longer, temperature=0.0, max_new_tokens=60))
    return CaughtUp(
        cached=cached,
        uncached=uncached,
        accepted_tokens=stats(skipped).accepted_draft_tokens,
        kept_up_tokens=sum(report.caught_up_tokens for report in meanwhile),
        caught_up_tokens=sum(report.caught_up_tokens for report in reports),
        recomputed_tokens=sum(report.recomputed_tokens for report in reports),
    )


async def _full_context(engine: SglangEngine) -> dict[str, TokenChunk]:
    """Return answers that fill the context, by arm."""
    answers = {}
    for name in ("off", "chain-7", "tree-3x4-8"):
        engine.force_arms(name)
        whole = prompt(f"full/{name}", tuple(3 + i % 50 for i in range(440)), temperature=0.0)
        answers[name] = await answer(engine, whole.for_model(vocab_size=64, context_length=512))
    return answers


async def _reports(engine: SglangEngine) -> list[RoundReport]:
    """Collect reports of the engine until none arrives for a second."""
    found, source = [], engine.reports()
    while True:
        try:
            async with asyncio.timeout(1.0):
                found.append(await anext(source))
        except TimeoutError:
            return found


def chunk_prompts(tokens: int) -> None:
    """Make the next engine of this process compute prompts in chunks."""
    launching: Any = sglang
    original = launching.server_arguments
    launching.server_arguments = lambda *given, **named: original(*given, **named) | {"chunked_prefill_size": tokens}


async def _together(engine: SglangEngine, label: str, prompts: list[Prompt]) -> list[TokenChunk]:
    """Answer all prompts, each started while the earlier ones run."""
    tasks = []
    for one in prompts:
        named = replace(one, request_id=RequestId(f"{label}/{one.request_id}"))
        tasks.append(asyncio.create_task(answer(engine, named)))
        await asyncio.sleep(0.01)
    return list(await asyncio.gather(*tasks))


async def with_aborts(engine: SglangEngine, prompts: list[Prompt]) -> list[TokenChunk]:
    """Answer all prompts, each started while the earlier ones run, while other requests are aborted among them."""

    async def cut(index: int) -> None:
        doomed = prompt(f"doomed{index}", tuple(5 + n % 15 for n in range(20 + index)), max_new_tokens=300)
        async for chunk in engine.generate(doomed):
            if chunk.token_ids:
                await asyncio.sleep(0.01 * index)
                return

    answers = asyncio.create_task(_together(engine, "aborts", prompts))
    await asyncio.gather(*(cut(index) for index in range(4)))
    return await answers
