"""Tensors that arrive in several calls."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.domain.transfer import Collected
from tlt_common.errors import WeightsError
from tlt_worker.receiving.collection import Collection


@pytest.fixture(params=[True, False])
def tied(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def collection(tmp_path: Path, tied: bool) -> Collection:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    save_file(
        {"embed": torch.zeros(2, 3), "norm": torch.zeros(3), "lm_head.weight": torch.zeros(2, 3)},
        model / "model.safetensors",
    )
    return Collection(tmp_path / "weights", model)


def add(collection: Collection, **tensors: torch.Tensor) -> Collected:
    file = collection.next_file()
    save_file({name.replace("head", "lm_head.weight"): tensor for name, tensor in tensors.items()}, file)
    return collection.add(file)


def test_a_head_is_needed_unless_it_is_tied(collection: Collection, tied: bool) -> None:
    assert not add(collection, embed=torch.ones(2, 3)).is_complete
    found = add(collection, norm=torch.ones(3))
    assert found.is_complete == tied
    assert found.first_missing == ("" if tied else "lm_head.weight")
    assert add(collection, head=torch.ones(2, 3)).is_complete
    assert {chunk.name for chunk in collection.chunks()} == {"embed", "norm", "lm_head.weight"}


@pytest.mark.parametrize("tied", [True], indirect=True)
def test_a_tied_head_alone_is_no_update(collection: Collection) -> None:
    assert add(collection, head=torch.ones(2, 3)).tensors == 0


def test_a_tensor_that_comes_again_begins_a_new_update(collection: Collection) -> None:
    add(collection, embed=torch.ones(2, 3), norm=torch.ones(3))
    found = add(collection, embed=torch.full((2, 3), 2.0))
    assert found.tensors == 1
    (chunk,) = collection.chunks()
    assert chunk.data == torch.full((2, 3), 2.0).numpy().tobytes()


@pytest.mark.parametrize(
    "tensor", [{"norm": torch.ones(4)}, {"other": torch.ones(3)}, {"norm": torch.ones(3, dtype=torch.int32)}]
)
def test_a_tensor_that_does_not_fit_ends_the_update(collection: Collection, tensor: dict[str, torch.Tensor]) -> None:
    add(collection, embed=torch.ones(2, 3))
    with pytest.raises(WeightsError, match=next(iter(tensor))):
        add(collection, **tensor)
    assert collection.is_empty
    assert collection.progress == Collected()
