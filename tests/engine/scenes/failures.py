"""Requests that fail inside the scheduler, beside requests that must not notice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.engine import faults, models
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.errors import TltError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

VOCABULARY = 64
POOL_TOKENS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresResult:
    """What became of hostile requests and of those beside them."""

    alone: list[tuple[int, ...]]
    """Tokens of undisturbed requests."""
    beside: dict[str, list[tuple[int, ...]]]
    """Tokens of the same requests beside a failing one, by its name."""
    errors: dict[str, TltError | None]
    """Error of each failing request; None if it was answered."""
    pids: list[tuple[int, ...]]
    """The engine's processes, before and after."""


async def overlapped(work: Path) -> FailuresResult:
    """
    Run the scene in SGLang's overlapped loop, as on a GPU: a round is launched before the previous one is processed.

    SGLang selects the plain loop for speculation on a CPU. torch's streams and events for a CPU do nothing.
    """
    from sglang.srt.arg_groups import speculative_hook

    speculative_hook._disable_overlap_schedule_for_cpu = lambda _: None
    return await failures(work)


async def failures(work: Path) -> FailuresResult:
    """Send each hostile request while three others run."""
    from sglang.srt.entrypoints.engine import Engine

    Engine.run_scheduler_process_func = staticmethod(faults.run_scheduler)
    target = models.write_target(work / "target", vocabulary=VOCABULARY, hidden=64, layers=4, weight=0.08)
    config = EngineConfig(
        dtype="float32", max_running=8, context_length=512, arms=("off", "ngram-4"), max_total_tokens=POOL_TOKENS
    )
    async with running(target, config, Experiment(seed=1)) as engine:
        others = [
            prompt("greedy", tuple(range(3, 12)), temperature=0.0, max_new_tokens=40),
            prompt("seeded", tuple(range(4, 13)), seed=7, max_new_tokens=40),
            prompt("penalised", tuple(range(5, 14)), temperature=0.0, frequency_penalty=0.5, max_new_tokens=40),
        ]
        before = engine.child_pids
        alone = [chunk.token_ids for chunk in await asyncio.gather(*(answer(engine, one) for one in others))]
        beside, errors = {}, {}
        for name, hostile in _hostile().items():
            answers, error = await _beside(engine, others, hostile)
            beside[name] = [chunk.token_ids for chunk in answers]
            errors[name] = error
        return FailuresResult(alone=alone, beside=beside, errors=errors, pids=[before, engine.child_pids])


def _hostile() -> dict[str, Prompt]:
    one = prompt("hostile", max_new_tokens=30)
    stops = replace(one.sampling, min_new_tokens=1, stop_token_ids=(10**9,), ignore_eos=False)
    return {
        "stop": replace(one, sampling=stops),
        "vocabulary": replace(one, token_ids=(1, VOCABULARY)),
        "too long for the pool": replace(one, token_ids=(1,) * (POOL_TOKENS + 20)),
        **{name: prompt(name, max_new_tokens=30) for name in (faults.LAUNCH, faults.PREPARE, faults.PROCESS)},
    }


async def _beside(
    engine: SglangEngine, others: Sequence[Prompt], hostile: Prompt
) -> tuple[list[TokenChunk], TltError | None]:
    error: TltError | None = None
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(engine, one)) for one in others]
        await asyncio.sleep(0.1)
        try:
            await answer(engine, hostile)
        except TltError as raised:
            error = raised
    return [task.result() for task in tasks], error
