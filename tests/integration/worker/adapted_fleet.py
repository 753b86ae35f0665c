"""Workers of a small model, a gateway, and adapters of the model."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tests.integration.gateway.conftest import served
from tests.integration.worker.live_worker import Bench, working
from tlt_gateway.config import GatewayConfig
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.checkpoints.merged import computed
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import ModelTensors

EMBEDDING, HEAD, MATRIX = "model.embed_tokens.weight", "lm_head.weight", "model.layers.0.self_attn.q_proj.weight"
START = {EMBEDDING: torch.randn(64, 4), HEAD: torch.randn(64, 4), MATRIX: torch.randn(6, 4)}
CONFIG = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
State = dict[str, torch.Tensor]


def adapter(seed: int, **config: Any) -> tuple[dict[str, Any], State]:
    torch.manual_seed(seed)
    name = f"base_model.model.{MATRIX.removesuffix('.weight')}"
    tensors = {f"{name}.lora_A.weight": torch.randn(2, 4), f"{name}.lora_B.weight": torch.randn(6, 2)}
    return CONFIG | config, tensors


def merged(base: State, seed: int) -> State:
    a, b = adapter(seed)[1].values()
    return {**base, MATRIX: base[MATRIX] + (b @ a) * 2}


def written(directory: Path, state: State) -> Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
    save_file(state, directory / "model.safetensors")
    return directory


def saved(directory: Path, seed: int) -> Path:
    directory.mkdir()
    config, tensors = adapter(seed)
    (directory / "adapter_config.json").write_text(json.dumps(config))
    save_file(tensors, directory / "adapter_model.safetensors")
    return directory


class Fleet:
    """Two workers with one model, and a gateway."""

    def __init__(self, work: Path, stack: AsyncExitStack, **settings: Any) -> None:
        self.work = work
        self.model = written(work / "model", START)
        self.settings = settings
        self.benches: list[Bench] = []
        self._stack = stack

    async def add_worker(self) -> Bench:
        name = f"w{len(self.benches)}"
        bench = Bench(self.work / name)
        bench.engine.check = ModelTensors.of(self.model).check
        await self._stack.enter_async_context(working(bench, model=self.model, worker_id=name))
        self.benches.append(bench)
        return bench

    def gateway(self, *benches: Bench, spool: str = "spool") -> Any:
        found = benches or tuple(self.benches)
        workers = [bench.address for bench in found]
        settings = {"workers": workers, "spool_dir": self.work / spool, **self.settings}
        return served(GatewayConfig.model_validate(settings), workers=len(found))

    def require(self, state: State, *benches: Bench) -> None:
        """Check what engines serve."""
        for bench in benches or self.benches:
            directory = bench.engine.loaded[-1]
            adapted = AdaptedCheckpoint.at(directory)
            assert adapted is not None
            weights = load_file(adapted.base / "model.safetensors")
            found = dict(adapted.merged(weights.items(), read_config(self.model)))
            assert found.keys() == state.keys()
            assert all(torch.equal(computed(found[name]), state[name]) for name in state)


@asynccontextmanager
async def fleet(work: Path, **settings: Any) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        made = Fleet(work, stack, **settings)
        for _ in range(2):
            await made.add_worker()
        yield made
