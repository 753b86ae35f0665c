"""Which files are a checkpoint: SGLang's own choice is the judge."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.errors import WeightsError, WeightsUnreadableError
from tlt_common.weights.checkpoint import entries_in
from tlt_common.weights.files import INDEX, weight_files

# What SGLang says at its import on a machine without a GPU.
pytestmark = pytest.mark.filterwarnings("ignore:Only CUDA:UserWarning")
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDS = {"a": ONE, "b": TWO}


def directory(tmp_path: Path, *names: str, index: object = None) -> Path:
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_file({f"tensor.{number}": torch.zeros(1)}, tmp_path / name)
    if index is not None:
        (tmp_path / INDEX).write_text(index if isinstance(index, str) else json.dumps({"weight_map": index}))
    return tmp_path


def found(path: Path) -> list[str]:
    return [file.name for file in weight_files(path)]


def read_by_sglang(path: Path) -> list[str]:
    from sglang.srt.model_loader.weight_utils import filter_duplicate_safetensors_files

    globbed = [str(file) for file in path.glob("*.safetensors") if not file.name.startswith(".")]
    return sorted(Path(name).name for name in filter_duplicate_safetensors_files(globbed, str(path), INDEX))


@pytest.mark.parametrize(
    ("names", "index", "expected"),
    [
        (("model.safetensors",), None, ["model.safetensors"]),
        (("policy.safetensors",), None, ["policy.safetensors"]),
        ((ONE, TWO), None, [ONE, TWO]),
        ((ONE, TWO), SHARDS, [ONE, TWO]),
        ((ONE, TWO, "model.safetensors"), SHARDS, [ONE, TWO]),
        ((ONE, TWO, "consolidated.safetensors", "adapter_model.safetensors"), SHARDS, [ONE, TWO]),
        (("model.safetensors", "consolidated.safetensors"), None, ["model.safetensors"]),
        (("model.safetensors", "._model.safetensors"), None, ["model.safetensors"]),
        (("a.safetensors", "b.safetensors"), None, ["a.safetensors", "b.safetensors"]),
    ],
)
def test_what_sglang_reads_is_the_checkpoint(
    tmp_path: Path, names: tuple[str, ...], index: object, expected: list[str]
) -> None:
    path = directory(tmp_path, *names, index=index)
    assert found(path) == expected == read_by_sglang(path)


@pytest.mark.parametrize(
    ("names", "index", "why"),
    [
        ((ONE,), SHARDS, f"lacks {TWO}"),
        (("model.safetensors",), SHARDS, f"lacks {ONE}"),
        ((ONE, "more/" + TWO), {"a": ONE, "b": "more/" + TWO}, rf"{INDEX} points to more/{TWO}, in a subfolder"),
        (("more/" + ONE, "more/" + TWO), {"a": "more/" + ONE, "b": "more/" + TWO}, rf"{INDEX} points to more/"),
        (("more/" + ONE, "more/" + TWO), None, rf"its subfolder more has {ONE}; accepted"),
        ((ONE,), None, f"lacks {TWO}"),
        ((ONE, TWO, "model-00001-of-00003.safetensors"), None, "model-00001-of-00003"),
        ((ONE, TWO, "model.safetensors"), None, r"model\.safetensors and model-00001"),
        ((ONE, TWO, "consolidated.safetensors"), None, r"consolidated\.safetensors and"),
        (("model.safetensors", "adapter_model.safetensors"), None, "remove the others"),
        ((ONE, TWO), "[]", "weight_map"),
        ((ONE, TWO), "{}", "weight_map"),
        ((ONE, TWO), '{"weight_map": {}}', "weight_map"),
        ((ONE, TWO), '{"weight_map": {"a": 1}}', "weight_map"),
        ((ONE, TWO), '{"weight_map": {"a": []}}', "weight_map"),
        ((ONE, TWO), "[" * 100_000, "weight_map"),
        ((), None, "contains no"),
    ],
)
def test_a_mixture_or_a_part_is_refused_by_name(
    tmp_path: Path, names: tuple[str, ...], index: object, why: str
) -> None:
    with pytest.raises(WeightsError, match=why):
        weight_files(directory(tmp_path, *names, index=index))


def test_pickled_weights_are_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(WeightsUnreadableError, match=r"only pytorch_model\.bin; save it with safe_serialization"):
        weight_files(tmp_path)


def test_a_tensor_in_two_files_is_refused(tmp_path: Path) -> None:
    for name in (ONE, TWO):
        save_file({"a": torch.zeros(1)}, tmp_path / name)
    with pytest.raises(WeightsError, match=f"tensor a is in {ONE} and in {TWO}"):
        entries_in(tmp_path)
