"""What users have on disk: every spelling of config.json and every layout of weights means the same everywhere."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.families import TYPES, model_of, shapes_of, written
from tests.unit.tlt_worker.model.tiny import change
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import format_of
from tlt_trainer.drafter.shared_weights import read_shared, trained_format
from tlt_worker.capacity.shape import ModelShape
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import FAMILIES
from tlt_worker.model.files import require_model
from tlt_worker.model.requirements import max_context, require_runnable

ENGINE = EngineConfig()
LAYERS = (0, 1)
ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 50_000.0},
    "linear": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32, "rope_theta": 500_000.0},
    "yarn": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 32, "rope_theta": 10_000.0},
}  # fmt: skip
families = pytest.mark.parametrize("family", TYPES)
served = pytest.mark.parametrize(
    ("family", "kind"), [(row.model_type, kind) for row in FAMILIES.values() for kind in row.drafters]
)


def as_transformers_4(config: dict[str, Any]) -> dict[str, Any]:
    """The spelling before `rope_parameters` and `dtype`."""
    found = {key: value for key, value in config.items() if key not in {"rope_parameters", "dtype"}}
    rope = dict(config["rope_parameters"])
    found["rope_theta"], share = rope.pop("rope_theta"), rope.pop("partial_rotary_factor", None)
    if share is not None:
        found["partial_rotary_factor"] = share
    kind = rope.pop("rope_type")
    found["rope_scaling"] = None if kind == "default" else {**rope, "type": kind}
    return {**found, "torch_dtype": config.get("dtype", "float32")}


@served
@pytest.mark.parametrize("rope", ROPES)
def test_both_spellings_of_a_configuration_are_one(family: str, kind: DrafterArchitecture, rope: str) -> None:
    new = written(family, num_hidden_layers=4, rope_parameters=dict(ROPES[rope]))
    old = as_transformers_4(new)
    assert require_runnable(new, ENGINE) == require_runnable(old, ENGINE)
    assert max_context(new) == max_context(old)
    forms = [trained_format(config, kind, layers=LAYERS if kind != "eagle" else None) for config in (new, old)]
    assert forms[0] == forms[1]
    shapes = [ModelShape.from_config(config, dtype="bfloat16", drafter=forms[0]) for config in (new, old)]
    assert shapes[0] == shapes[1]
    drafters = [forms[0].config(new), as_transformers_4(forms[0].config(new))]
    assert format_of(drafters[0], new) == format_of(drafters[1], old) == forms[0]


@families
def test_shards_with_an_index_are_one_checkpoint(tmp_path: Path, family: str) -> None:
    model_of(family).save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    assert {name: header.shape for name, header in require_model(tmp_path, ENGINE).headers.items()} == shapes_of(family)
    form = trained_format(read_config(tmp_path))
    assert read_shared(tmp_path, form, torch.device("cpu")).head.shape == (48, 32)


@pytest.mark.parametrize(
    "family", [row.model_type for row in FAMILIES.values() if "tie_word_embeddings" not in row.fixed]
)
def test_a_tied_head_may_be_in_the_file_or_not(tmp_path: Path, family: str) -> None:
    model_of(family, tie_word_embeddings=True).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    assert "lm_head.weight" not in tensors
    assert require_model(tmp_path, ENGINE).is_tied
    save_file(
        {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].clone()}, tmp_path / "model.safetensors"
    )
    assert require_model(tmp_path, ENGINE).is_tied
    shared = read_shared(tmp_path, trained_format(read_config(tmp_path)), torch.device("cpu"))
    assert shared.head is shared.embedding


@families
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_every_type_of_weights_is_planned_in_the_type_it_is_served_in(
    tmp_path: Path, family: str, dtype: torch.dtype
) -> None:
    model_of(family).to(dtype).save_pretrained(tmp_path)
    require_model(tmp_path, ENGINE)
    config = read_config(tmp_path)
    half, whole = (ModelShape.from_config(config, dtype=name).weight_bytes(1) for name in ("bfloat16", "float32"))
    assert whole == 2 * half


@families
def test_all_weights_of_a_family_are_planned(family: str) -> None:
    config = written(family, vocab_size=64)  # SGLang pads others
    shape = ModelShape.from_config(config, dtype="bfloat16")
    stored = sum(torch.Size(size).numel() for size in shapes_of(family, vocab_size=64).values())
    assert shape.parameters == stored
    assert shape.weight_bytes(1) == 2 * stored


@families
@pytest.mark.parametrize("rope", ["dynamic", "longrope"])
def test_a_rope_that_trainers_cannot_follow_is_refused_before_anything_is_loaded(
    tmp_path: Path, family: str, rope: str
) -> None:
    model_of(family).save_pretrained(tmp_path)
    change(tmp_path, rope_parameters={"rope_type": rope, "factor": 2.0, "rope_theta": 1e4})
    with pytest.raises(Exception, match=f"rope type is '{rope}'; accepted: default, linear, llama3, yarn"):
        require_model(tmp_path, ENGINE)
    with pytest.raises(Exception, match=f"rope type is '{rope}'"):
        trained_format(read_config(tmp_path))
