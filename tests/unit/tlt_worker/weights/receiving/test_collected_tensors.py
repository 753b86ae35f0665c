"""Tensors that arrive in several calls."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import ChangesPart, Collected
from tlt_common.errors import WeightsError
from tlt_worker.weights.receiving.collected_tensors import CollectedTensors

EMBED, HEAD = "model.embed_tokens.weight", "lm_head.weight"


@pytest.fixture(params=[True, False])
def tied(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def served(tmp_path: Path) -> list[Path]:
    """The directory served; the last one counts."""
    return [tmp_path / "model"]


@pytest.fixture
def collection(tmp_path: Path, tied: bool, served: list[Path]) -> CollectedTensors:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"tie_word_embeddings": tied}))
    save_file({EMBED: torch.zeros(2, 3), "norm": torch.zeros(3), HEAD: torch.zeros(2, 3)}, model / "model.safetensors")
    return CollectedTensors(tmp_path / "weights", model, lambda: served[-1])


def add(collection: CollectedTensors, prefix: str = "", **tensors: torch.Tensor) -> Collected:
    return add_part(collection, None, prefix, **tensors)


def add_part(
    collection: CollectedTensors, part: ChangesPart | None, prefix: str = "", **tensors: torch.Tensor
) -> Collected:
    file = collection.next_file(part)
    names = {"head": HEAD, "embed": EMBED}
    save_file({prefix + names.get(name, name): tensor for name, tensor in tensors.items()}, file)
    return collection.add(file, part)


def test_a_head_is_needed_unless_it_is_tied(collection: CollectedTensors, tied: bool) -> None:
    assert not add(collection, embed=torch.ones(2, 3)).is_complete
    found = add(collection, norm=torch.ones(3))
    assert found.is_complete == tied
    assert found.first_missing == ("" if tied else HEAD)
    assert add(collection, head=torch.ones(2, 3)).is_complete
    assert {chunk.name for chunk in collection.chunks()} == {EMBED, "norm", HEAD}


@pytest.mark.parametrize("tied", [True], indirect=True)
def test_a_tied_head_alone_is_no_update(collection: CollectedTensors) -> None:
    assert add(collection, head=torch.ones(2, 3)).tensors == 0


def installed(collection: CollectedTensors, served: list[Path], embed: torch.Tensor) -> None:
    """Collect an update without a head, serve it, and delete what was collected, as a gateway does."""
    assert add(collection, embed=embed, norm=torch.ones(3)).is_complete
    served.append(served[0].parent / f"served-{len(served)}")
    served[-1].mkdir()
    save_file({EMBED: embed}, served[-1] / "model.safetensors")
    collection.drop()


@pytest.mark.parametrize("tied", [True], indirect=True)
def test_a_tied_head_that_comes_after_its_update_is_compared_with_it(
    collection: CollectedTensors, served: list[Path]
) -> None:
    for step in (1.0, 2.0):
        installed(collection, served, torch.full((2, 3), step))
        assert add(collection, head=torch.full((2, 3), step)) == Collected()
        assert collection.is_empty
    installed(collection, served, torch.full((2, 3), 3.0))
    with pytest.raises(WeightsError, match=r"lm_head.weight differs"):
        add(collection, head=torch.full((2, 3), 2.0))


@pytest.mark.parametrize("tied", [True], indirect=True)
def test_a_tied_head_that_comes_first_stays_with_its_update(collection: CollectedTensors) -> None:
    for step in (1.0, 2.0):
        add(collection, head=torch.full((2, 3), step))
        assert add(collection, embed=torch.full((2, 3), step), norm=torch.ones(3)).is_complete
        assert {chunk.name for chunk in collection.chunks()} == {EMBED, "norm", HEAD}
        collection.drop()


@pytest.mark.parametrize("prefix", ["_orig_mod.", "module.", "base_model.model."])
@pytest.mark.parametrize("tied", [True], indirect=True)
def test_wrapped_names_count_as_plain_ones(collection: CollectedTensors, prefix: str) -> None:
    assert add(collection, prefix, embed=torch.ones(2, 3), norm=torch.ones(3)).is_complete


def test_one_tensor_under_two_names_is_refused(collection: CollectedTensors) -> None:
    with pytest.raises(WeightsError, match="norm was sent twice"):
        add(collection, "", **{"norm": torch.ones(3), "module.norm": torch.ones(3)})


def test_a_tensor_that_comes_again_begins_a_new_update(collection: CollectedTensors) -> None:
    add(collection, embed=torch.ones(2, 3), norm=torch.ones(3))
    found = add(collection, embed=torch.full((2, 3), 2.0))
    assert found.tensors == 1
    (chunk,) = collection.chunks()
    assert chunk.data == torch.full((2, 3), 2.0).numpy().tobytes()


@pytest.mark.parametrize(
    "tensor", [{"norm": torch.ones(4)}, {"other": torch.ones(3)}, {"norm": torch.ones(3, dtype=torch.int32)}]
)
def test_a_tensor_that_does_not_fit_ends_the_update(
    collection: CollectedTensors, tensor: dict[str, torch.Tensor]
) -> None:
    add(collection, embed=torch.ones(2, 3))
    with pytest.raises(WeightsError, match=next(iter(tensor))):
        add(collection, "", **tensor)
    assert collection.is_empty
    assert collection.progress == Collected()


def part(number: int, base: int = 6) -> ChangesPart:
    return ChangesPart(base=PolicyVersion(base), number=number)


def test_parts_of_changes_are_held_in_their_order_and_fetched_only_if_all_are_there(
    collection: CollectedTensors,
) -> None:
    assert add_part(collection, part(0), embed=torch.ones(2)) == Collected(parts=1)
    assert not collection.is_empty
    assert add_part(collection, part(1), norm=torch.ones(3)) == Collected(parts=2)
    assert {chunk.name for chunk in collection.chunks(part(2))} == {EMBED, "norm"}
    add_part(collection, part(0), norm=torch.ones(3))
    assert {chunk.name for chunk in collection.chunks(part(1))} == {"norm"}, "part 0 begins anew"
    assert collection.drop() == Collected(parts=1)


@pytest.mark.parametrize("wrong", [part(2), part(1, base=7), part(3), None])
def test_changes_that_lack_a_part_or_have_another_base_are_deleted(
    collection: CollectedTensors, wrong: ChangesPart | None
) -> None:
    add_part(collection, part(0), embed=torch.ones(2))
    with pytest.raises(WeightsError, match="held: 1"):
        next(collection.chunks(wrong))
    assert collection.is_empty
    if wrong is not None:
        add_part(collection, part(0), embed=torch.ones(2))
        with pytest.raises(WeightsError, match="held: 1"):
            add_part(collection, wrong, norm=torch.ones(3))
        assert collection.is_empty


def test_a_tensor_is_in_one_part_of_changes(collection: CollectedTensors) -> None:
    add_part(collection, part(0), embed=torch.ones(2))
    with pytest.raises(WeightsError, match="in an earlier part"):
        add_part(collection, part(1), "_orig_mod.", embed=torch.ones(2))
    assert collection.is_empty


def test_changes_and_whole_weights_are_not_mixed(collection: CollectedTensors) -> None:
    add_part(collection, part(0), embed=torch.ones(2, 3))
    assert add(collection, norm=torch.ones(3)).parts == 0
    assert {chunk.name for chunk in collection.chunks()} == {"norm"}
    with pytest.raises(WeightsError, match="held: none"):
        add_part(collection, part(1), norm=torch.ones(3))
    assert collection.is_empty
