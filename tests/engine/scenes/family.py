"""Other model families, and an engine whose owner is killed."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import torch

from tests.engine import models
from tests.engine.scenes.engine import CHAINS, PROMPT, answer, prompt, running
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_worker.engine_config import EngineConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyResult:
    """A greedy answer of a model family."""

    answer: TokenChunk
    expected: list[int]
    """Transformers' choice at each position."""
    reload_s: float
    remaining_pids: list[int]
    """Engine processes that outlive the engine."""


async def qwen2(work: Path) -> FamilyResult:
    """A Qwen2 target."""
    return await _family(work, "qwen2")


async def qwen3(work: Path) -> FamilyResult:
    """A Qwen3 target."""
    return await _family(work, "qwen3")


async def _family(work: Path, family: str) -> FamilyResult:
    target = models.write_qwen(work / "target", family)
    drafter = models.write_drafter(work / "drafter", target, noise=0.02)
    config = EngineConfig(drafter=drafter, dtype="float32", max_running=4, context_length=256, arms=CHAINS)
    async with running(target, config) as engine:
        engine.force_arms("chain-3")
        chunk = await answer(engine, prompt("greedy", temperature=0.0, max_new_tokens=60))
        reload_s = await engine.load_weights(target, PolicyVersion(1))
        pids = engine.child_pids
    with torch.no_grad():
        logits = models.load(target)(torch.tensor([[*PROMPT, *chunk.token_ids]])).logits[0]
    return FamilyResult(
        answer=chunk,
        expected=logits[len(PROMPT) - 1 : -1].argmax(-1).tolist(),
        reload_s=reload_s,
        remaining_pids=[pid for pid in pids if _runs(pid)],
    )


def _runs(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # empty for a zombie
    except OSError:
        return False


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
