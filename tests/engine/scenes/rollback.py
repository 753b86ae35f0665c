"""Weights that cannot be read to the end while they are loaded."""

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file

from tests.engine import models
from tests.engine.scenes.engine import CHAINS, answer, prompt, running
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_common.errors import EngineError, WeightsError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class RollbackResult:
    """Greedy answers to the same prompt, in this order, and errors."""

    start: TokenChunk
    newer: TokenChunk
    """With version 1."""
    refusal: str
    in_flight: TokenChunk
    """Running while version 2 failed to load."""
    after: TokenChunk
    fatal: str
    """Error of a load that failed when the served weights were gone as well."""
    death: str


async def rollback(work: Path) -> RollbackResult:
    """Serve version 1, fail to load version 2 halfway, then again without the files of version 1."""
    start = models.write_target(work / "target", vocabulary=64, hidden=64, layers=4, weight=0.08)
    newer = models.write_target(work / "newer", vocabulary=64, hidden=64, layers=4, weight=0.08, seed=5)
    damaged = _truncated(
        work, models.write_target(work / "v2", vocabulary=64, hidden=64, layers=4, weight=0.08, seed=9)
    )
    config = EngineConfig(dtype="float32", max_running=4, context_length=512, arms=CHAINS)
    async with running(start, config, Experiment(seed=1)) as engine:
        ask = prompt("ask", temperature=0.0, max_new_tokens=40)
        first = await answer(engine, ask)
        await engine.load_weights(newer, PolicyVersion(1))
        second = await answer(engine, ask)
        engine.check_weights = _unchecked  # type: ignore[method-assign,assignment] # the file is damaged after the check
        long = asyncio.create_task(answer(engine, prompt("long", temperature=0.0, max_new_tokens=300)))
        await asyncio.sleep(0.3)
        refusal = await _refusal(engine, damaged)
        in_flight, after = await long, await answer(engine, ask)
        watch = asyncio.create_task(engine.died())
        shutil.rmtree(newer)
        fatal = await _refusal(engine, damaged)
        async with asyncio.timeout(20):
            death = await watch
        return RollbackResult(
            start=first, newer=second, refusal=refusal, in_flight=in_flight, after=after, fatal=fatal, death=death
        )


def _truncated(work: Path, target: Path) -> Path:
    """Return a copy of a checkpoint in two files, the second of which is cut off."""
    damaged = work / "damaged"
    shutil.copytree(target, damaged, ignore=shutil.ignore_patterns("*.safetensors*"))
    tensors = {name: tensor for file in target.glob("*.safetensors") for name, tensor in load_file(file).items()}
    names = sorted(tensors)
    for index, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), start=1):
        save_file({name: tensors[name].clone() for name in part}, damaged / f"model-{index:05d}-of-00002.safetensors")
    second = damaged / "model-00002-of-00002.safetensors"
    second.write_bytes(second.read_bytes()[:-1000])
    return damaged


async def _unchecked(_directory: Path) -> int:
    return 0


async def _refusal(engine: SglangEngine, directory: Path) -> str:
    try:
        await engine.load_weights(directory, PolicyVersion(2))
    except (WeightsError, EngineError) as error:
        return f"{type(error).__name__}: {error.message}"
    return "loaded"
