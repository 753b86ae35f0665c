"""Embedding and head are read from the files that the engine reads."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.unit.tlt_trainer.tiny import CPU, TinyPolicy
from tlt_common.errors import WeightsError
from tlt_common.weights.files import INDEX
from tlt_trainer.drafter.shared_weights import EMBEDDING, read_shared

ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


@pytest.fixture
def sharded(policy: TinyPolicy, tmp_path: Path) -> Path:
    """A checkpoint in two files, beside a single one of older weights that its index does not list."""
    tensors = {
        name: tensor for file in policy.directory.glob("*.safetensors") for name, tensor in load_file(file).items()
    }
    parts = {ONE: [EMBEDDING], TWO: [name for name in tensors if name != EMBEDDING]}
    for file, names in parts.items():
        save_file({name: tensors[name] for name in names}, tmp_path / file)
    listed = {name: file for file, names in parts.items() for name in names}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": listed}))
    save_file({name: torch.zeros_like(tensor) for name, tensor in tensors.items()}, tmp_path / "model.safetensors")
    return tmp_path


def test_a_file_that_the_index_does_not_list_is_not_learned_from(policy: TinyPolicy, sharded: Path) -> None:
    assert torch.equal(read_shared(sharded, policy.form, CPU).embedding, policy.shared.embedding)


def test_a_mixture_without_an_index_is_refused(policy: TinyPolicy, sharded: Path) -> None:
    (sharded / INDEX).unlink()
    with pytest.raises(WeightsError, match="remove the others"):
        read_shared(sharded, policy.form, CPU)
