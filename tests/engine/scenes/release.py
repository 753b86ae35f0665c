"""An engine on a CPU that releases its memory and resumes, with updates in between."""

from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.engine import models
from tests.engine.scenes.engine import CHAINS, prompt, running
from tests.engine.scenes.engine import answer as answered
from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_worker.capacity.cpu_plan import cpu_rows
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine.device import detect
from tlt_worker.engine.planning import plan_of
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment

CONTEXT, ROWS = 1024, ("weights", "packed weights", "drafter", "KV cache")
"""Rows of the plan that a release frees; rounds hold nothing while none runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseResult:
    """Greedy answers with drafts, and bytes."""

    before: TokenChunk
    after: TokenChunk
    """After a release of everything."""
    updated: TokenChunk
    """Under weights loaded while the KV cache was released."""
    twin: TokenChunk
    """Under the same weights, loaded without a release."""
    again: TokenChunk
    """After two more releases, of a part each."""
    released_bytes: int
    planned_bytes: int
    left_files: int
    """Files left in the engine's directory once all is resumed."""


async def release(work: Path) -> ReleaseResult:
    """Release and resume in several orders."""
    sizes = {"vocabulary": 8192, "hidden": 256, "layers": 6, "weight": 0.02, "head": 0.1}
    target = models.write_target(work / "target", **sizes, seed=11)  # type: ignore[arg-type]
    other = models.write_target(work / "other", **sizes, seed=12)  # type: ignore[arg-type]
    drafter = models.write_drafter(work / "drafter", target, noise=0.01)
    config = EngineConfig(
        dtype="float32", max_running=8, context_length=CONTEXT, arms=CHAINS, drafter=drafter, releasable=True
    )
    async with running(target, config, Experiment(seed=1)) as engine:
        engine.force_arms("chain-3")
        before, files = await _answer(engine), _files(engine)
        held = _resident(engine)
        await engine.release_memory(MEMORY_TAGS)
        released = held - _resident(engine)
        await engine.resume_memory(MEMORY_TAGS)
        after = await _answer(engine)

        await engine.release_memory(MEMORY_TAGS)
        await engine.resume_memory(["weights"])
        await engine.load_weights(other, PolicyVersion(1))
        await engine.resume_memory(["kv_cache", "cuda_graph"])
        updated = await _answer(engine)

        await engine.release_memory(["kv_cache"])
        await engine.resume_memory(["kv_cache"])
        await engine.release_memory(["weights"])
        await engine.resume_memory(["weights"])
        again = await _answer(engine)

        await engine.load_weights(target, PolicyVersion(2))
        await engine.load_weights(other, PolicyVersion(3))
        return ReleaseResult(
            before=before,
            after=after,
            updated=updated,
            twin=await _answer(engine),
            again=again,
            released_bytes=released,
            planned_bytes=_planned(target, config),
            left_files=len(_files(engine) - files),
        )


async def _answer(engine: SglangEngine) -> TokenChunk:
    return await answered(engine, prompt("ask", temperature=0.0, max_new_tokens=60))


def _resident(engine: SglangEngine) -> int:
    return sum(int(psutil.Process(pid).memory_info().rss) for pid in engine.child_pids)


def _files(engine: SglangEngine) -> set[Path]:
    return set(engine._directory.iterdir())


def _planned(model: Path, config: EngineConfig) -> int:
    described = read_config(model)
    plan = plan_of(config, detect(), described)
    shape = ModelShape.from_config(described, dtype="float32")
    rows = cpu_rows(config, shape, plan, context_length=CONTEXT)
    return sum(row.bytes for row in rows if row.name in ROWS)
