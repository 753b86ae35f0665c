"""An engine may start from a checkpoint whose experts are stacked."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.families import model_of
from tlt_common.errors import ConfigError
from tlt_common.weights.experts import SERVED_APART
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.files import require_model


@pytest.fixture(params=sorted(SERVED_APART))
def stacked(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint as `state_dict()` holds it."""
    model = model_of(request.param).to(torch.bfloat16)
    model.save_pretrained(tmp_path)
    state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    save_file(state, tmp_path / "model.safetensors")
    return tmp_path


def test_a_checkpoint_of_stacked_experts_is_complete(stacked: Path) -> None:
    tensors = require_model(stacked, EngineConfig())
    assert "model.layers.1.mlp.experts.7.up_proj.weight" in tensors.headers


def test_a_stack_that_config_json_contradicts_is_refused(stacked: Path) -> None:
    state = load_file(stacked / "model.safetensors")
    name = "model.layers.1.mlp.experts.down_proj"
    for changed in (state[name][:7], torch.cat([state[name], state[name][:1]])):
        save_file({**state, name: changed.contiguous()}, stacked / "model.safetensors")
        with pytest.raises(ConfigError, match=r"experts\.[78]\.down_proj"):
            require_model(stacked, EngineConfig())
