"""What an engine is refused for before any process of it starts."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tlt_common.domain.strategy import OFF, Arm, chain, tree
from tlt_common.errors import ConfigError, TltError
from tlt_lab.bench.prepare import DRAFTER
from tlt_lab.demo.model import CHECKPOINT
from tlt_worker.engine.launch import EngineOptions
from tlt_worker.engine.sglang import SglangEngine


def refusal(options: EngineOptions) -> TltError:
    async def start() -> TltError:
        engine = SglangEngine(options)
        try:
            with pytest.raises(TltError) as refused:
                await engine.start()
        finally:
            await engine.aclose()
        return refused.value

    return asyncio.run(start())


@pytest.mark.parametrize(
    ("arms", "words"),
    [
        ((), "arms is empty"),
        ((OFF, chain(3), chain(3)), "'chain-3' twice"),
        ((OFF, tree(8, 8, 64)), "'tree-8x8-64' verifies 64 tokens a round, and the context has 32"),
    ],
)
def test_arms_that_cannot_run(arms: tuple[Arm, ...], words: str) -> None:
    error = refusal(EngineOptions(model=CHECKPOINT, arms=arms, context_length=32))
    assert isinstance(error, ConfigError)
    assert error.field == "arms"
    assert words in error.message
    assert "accepted: " in error.message


@pytest.mark.parametrize(("name", "value"), [("hidden_size", 8), ("vocab_size", 7)])
def test_a_drafter_of_another_model(tmp_path: Path, name: str, value: int) -> None:
    shutil.copytree(DRAFTER, tmp_path / "drafter")
    path = tmp_path / "drafter" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    error = refusal(EngineOptions(model=CHECKPOINT, drafter=tmp_path / "drafter"))
    assert f"the drafter's {name} is {value}; that of the model it drafts for" in error.message


def test_a_corrupt_drafter(tmp_path: Path) -> None:
    shutil.copytree(DRAFTER, tmp_path / "drafter")
    path = next((tmp_path / "drafter").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:1000])
    assert path.name in refusal(EngineOptions(model=CHECKPOINT, drafter=tmp_path / "drafter")).message
