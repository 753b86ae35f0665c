"""Updates of a policy whose head is tied, in the forms in which trainers send them."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.adapters import peft_model, write_adapter, write_merged
from tests.engine import models
from tests.engine.scenes.engine import CHAINS, answer, prompt, running
from tlt_common.client import ChangedElements
from tlt_common.client.tensors import stream
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError
from tlt_common.weights.spool import Spool
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig
from tlt_worker.experiment import Experiment
from tlt_worker.weights.deltas import folded

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatesResult:
    """Greedy answers to one prompt under the same weights, sent in several forms, and refusals."""

    start: TokenChunk
    whole: TokenChunk
    folded: TokenChunk
    """The start with changed elements."""
    with_head: TokenChunk
    """With a head that equals the embedding."""
    sharded: TokenChunk
    """In shards, with a stale file beside them."""
    merged: TokenChunk
    """With an adapter that PEFT merged."""
    adapted: TokenChunk
    """With that adapter and its base."""
    other_head: str
    """Error of a head that does not equal the embedding."""
    other_adapter: str
    """Error of an adapter of another model."""
    without_norm: str


async def updates(work: Path) -> UpdatesResult:
    """Send one update in several forms, the start between them."""
    start = models.write_qwen(work / "start", "qwen2", layers=2)
    before = load_file(start / "model.safetensors")
    after, changes = _changed(before)
    whole = _written(work / "whole", start, {"model.safetensors": after})
    with_head = _written(work / "head", start, {"model.safetensors": {**after, HEAD: after[EMBEDDING]}})
    other = _written(work / "other", start, {"model.safetensors": {**after, HEAD: before[EMBEDDING]}})
    bare = _written(
        work / "bare", start, {"model.safetensors": {k: v for k, v in after.items() if k != "model.norm.weight"}}
    )
    tuned = peft_model(start, target_modules="all-linear", r=4, lora_alpha=8, use_rslora=True)
    merged = write_merged(tuned, work / "merged")
    adapted = _joined(work / "adapted", start, write_adapter(tuned, work / "adapter"))
    deeper = write_adapter(
        peft_model(models.write_qwen(work / "deep", "qwen2", layers=3), target_modules=["q_proj"]), work / "deeper"
    )
    config = EngineConfig(dtype="float32", max_running=4, context_length=512, arms=CHAINS)
    async with running(start, config, Experiment(seed=1)) as engine:
        served = _Served(engine, start)
        return UpdatesResult(
            start=await served.answer(start),
            whole=await served.answer(whole),
            folded=await served.answer(_spooled(work, folded(start, _spooled(work, stream(changes))))),
            with_head=await served.answer(with_head),
            sharded=await served.answer(_sharded(work / "sharded", start, before, after)),
            merged=await served.answer(merged),
            adapted=await served.answer(adapted),
            other_head=await served.refusal(other),
            other_adapter=await served.refusal(_joined(work / "deeper-joined", start, deeper)),
            without_norm=await served.refusal(bare),
        )


@dataclass
class _Served:
    engine: SglangEngine
    start: Path
    version: int = 0

    async def answer(self, directory: Path) -> TokenChunk:
        """Load the start, then these weights; return the answer under them."""
        for path in (self.start, directory):
            self.version += 1
            await self.engine.load_weights(path, PolicyVersion(self.version))
        return await answer(self.engine, prompt("ask", temperature=0.0, max_new_tokens=40))

    async def refusal(self, directory: Path) -> str:
        try:
            await self.engine.load_weights(directory, PolicyVersion(99))
        except WeightsError as error:
            return error.message
        return ""


def _joined(directory: Path, base: Path, adapter: Path) -> Path:
    directory.mkdir()
    AdaptedCheckpoint(base=base, adapter=adapter).link(directory)
    return directory


def _changed(before: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return weights in which one element of ten is another, and the changes."""
    torch.manual_seed(1)
    after, changes = {}, {}
    for name, tensor in before.items():
        flat = tensor.flatten().clone()
        indices = torch.randperm(flat.numel())[: max(1, flat.numel() // 10)]
        flat[indices] += 0.5
        after[name] = flat.reshape(tensor.shape)
        changes[name] = ChangedElements(indices, flat[indices])
    return after, changes


def _written(directory: Path, start: Path, files: dict[str, dict[str, torch.Tensor]]) -> Path:
    directory.mkdir()
    shutil.copy(start / "config.json", directory)
    for file, state in files.items():
        save_file({name: tensor.clone() for name, tensor in state.items()}, directory / file)
    return directory


def _sharded(directory: Path, start: Path, stale: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> Path:
    names = sorted(state)
    parts = {f"model-{part + 1:05}-of-00002.safetensors": names[part::2] for part in range(2)}
    shards = {file: {name: state[name] for name in part} for file, part in parts.items()}
    _written(directory, start, {**shards, "model.safetensors": stale})
    index = {name: file for file, part in parts.items() for name in part}
    (directory / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    return directory


def _spooled(work: Path, chunks: Any) -> Path:
    spool = Spool(work / "spools")
    chunk: TensorChunk
    for chunk in chunks:
        spool.write(chunk)
    spool.complete()
    return spool.directory
