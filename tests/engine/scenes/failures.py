"""Requests that fail inside the scheduler, beside requests that must not notice."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.engine import faults, models
from tests.engine.scenes.engine import answer, prompt, running
from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import TltError, WeightsError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.link.messages import ForceArms

VOCABULARY = 64
POOL_TOKENS = 400
RAISING = (faults.LAUNCH, faults.PREPARE, faults.PROCESS, faults.FILTER, faults.DECODE)


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
    aborted: str
    """Finish reason, or error, of a request whose abort failed half-way."""
    refused: WeightsError | None
    """Error of an update that failed once the weights were loaded."""
    despite_message: TokenChunk
    """Answer to a request that ran alone when the worker sent a message that cannot be handled."""
    ended: TltError | None
    """With several ranks: error of a request that failed on one of them."""


async def over_two_ranks(work: Path) -> FailuresResult:
    """Run the scene over two tensor-parallel ranks, and end it with a request that fails on one of them."""
    return await failures(work, ranks=2)


async def failures(work: Path, *, ranks: int = 1) -> FailuresResult:
    """Send each hostile request while three others run."""
    from sglang.srt.entrypoints.engine import Engine

    Engine.run_scheduler_process_func = staticmethod(faults.run_scheduler)
    target = models.write_target(work / "target", vocabulary=VOCABULARY, hidden=64, layers=4, weight=0.08)
    config = EngineConfig(
        dtype="float32", max_running=8, context_length=512, arms=("off", "ngram-4"), max_total_tokens=POOL_TOKENS,
        tensor_parallel=ranks,
    )  # fmt: skip
    async with running(target, config, Experiment(seed=1)) as engine:
        others = [
            prompt("greedy", tuple(range(3, 12)), temperature=0.0, max_new_tokens=40),
            prompt("seeded", tuple(range(4, 13)), seed=7, max_new_tokens=40),
            prompt("penalized", tuple(range(5, 14)), temperature=0.0, frequency_penalty=0.5, max_new_tokens=40),
        ]
        before = engine.child_pids
        alone = [chunk.token_ids for chunk in await asyncio.gather(*(answer(engine, one) for one in others))]
        beside, errors = {}, {}
        for name, hostile in _hostile().items():
            answers, error = await _beside(engine, others, hostile)
            beside[name] = [chunk.token_ids for chunk in answers]
            errors[name] = error
        beside["abort"], aborted = await _aborted(engine, others)
        refused, despite_message = await _refused(engine, target), await _despite_message(engine)
        beside["afterwards"] = [chunk.token_ids for chunk in await asyncio.gather(*(answer(engine, o) for o in others))]
        return FailuresResult(
            alone=alone, beside=beside, errors=errors, pids=[before, engine.child_pids], aborted=aborted,
            refused=refused, despite_message=despite_message,
            ended=await _ended(engine) if ranks > 1 else None,
        )  # fmt: skip


def _hostile() -> dict[str, Prompt]:
    one = prompt("hostile", max_new_tokens=30)
    stops = replace(one.sampling, min_new_tokens=1, stop_token_ids=(10**9,), ignore_eos=False)
    return {
        "stop": replace(one, sampling=stops),
        "vocabulary": replace(one, token_ids=(1, VOCABULARY)),
        "too long for the pool": replace(one, token_ids=(1,) * (POOL_TOKENS + 20)),
        **{name: prompt(name, max_new_tokens=30) for name in RAISING},
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


async def _aborted(engine: SglangEngine, others: Sequence[Prompt]) -> tuple[list[tuple[int, ...]], str]:
    """Abort a request whose abort fails, beside others; return their tokens, and how it ended."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(answer(engine, one)) for one in others]
        ended = ""
        try:
            async for chunk in engine.generate(prompt(faults.ABORT, max_new_tokens=300)):
                await engine.abort(RequestId(faults.ABORT))
                ended = str(chunk.finish_reason)
        except TltError as error:
            ended = error.message
    return [task.result().token_ids for task in tasks], ended


async def _refused(engine: SglangEngine, target: Path) -> WeightsError | None:
    try:
        await engine.load_weights(target, PolicyVersion(faults.VERSION))
    except WeightsError as error:
        return error
    return None


async def _despite_message(engine: SglangEngine) -> TokenChunk:
    whole: TokenChunk | None = None
    async for chunk in engine.generate(prompt("alone", max_new_tokens=60)):
        if whole is None:
            engine._need_link().send(ForceArms(names=("no such arm",)))
        whole = chunk if whole is None else whole.followed_by(chunk)
    assert whole is not None
    return whole


async def _ended(engine: SglangEngine) -> TltError | None:
    """Return the error of a request that fails on one rank."""
    try:
        await answer(engine, prompt(faults.ONE_RANK, max_new_tokens=300))
    except TltError as error:
        return error
    return None
