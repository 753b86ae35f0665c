"""What an engine is refused for before any process of it starts."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from countdown.model import CHECKPOINT
from countdown.settings import DRAFTER
from tlt_common.errors import ConfigError, TltError
from tlt_worker.engine.sglang import SglangEngine
from tlt_worker.engine_config import EngineConfig


def refusal(config: EngineConfig, model: Path = CHECKPOINT) -> TltError:
    async def start() -> TltError:
        engine = SglangEngine(model, config)
        try:
            with pytest.raises(TltError) as refused:
                await engine.start()
        finally:
            await engine.aclose()
        return refused.value

    return asyncio.run(start())


def test_arms_that_cannot_run() -> None:
    error = refusal(EngineConfig(arms=("off", "tree-8x8-64"), context_length=32))
    assert isinstance(error, ConfigError)
    assert error.field == "engine.arms"
    assert "'tree-8x8-64' verifies 64 tokens per round, but the context length is 32" in error.message
    assert "accepted: " in error.message


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 8), ("vocab_size", 7)])
def test_a_drafter_of_another_model(tmp_path: Path, name: str, value: int) -> None:
    shutil.copytree(DRAFTER, tmp_path / "drafter")
    path = tmp_path / "drafter" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    error = refusal(EngineConfig(drafter=tmp_path / "drafter"))
    assert f"the drafter's {name} is {value}; accepted: " in error.message


def test_a_corrupt_drafter(tmp_path: Path) -> None:
    shutil.copytree(DRAFTER, tmp_path / "drafter")
    path = next((tmp_path / "drafter").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:1000])
    assert path.name in refusal(EngineConfig(drafter=tmp_path / "drafter")).message


def test_a_policy_with_a_value_that_is_not_finite(tmp_path: Path) -> None:
    shutil.copytree(CHECKPOINT, tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.safetensors")
    tensors = load_file(file)
    tensors["model.norm.weight"][3] = float("inf")
    save_file(tensors, file, {"format": "pt"})
    error = refusal(EngineConfig(), tmp_path / "model")
    assert isinstance(error, ConfigError)
    assert "tensor model.norm.weight has values that are not finite (NaN or infinity)" in error.message
