"""Merged adapters are those of PEFT, bit for bit, wherever its own merging is that of the model it trained."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen3MoeConfig

from tests.adapters import peft_model, write_adapter, write_merged
from tlt_common.errors import WeightsError
from tlt_common.weights.adapter import Adapter
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.checkpoints.merged import MergedTensor, computed
from tlt_worker.checkpoints.model_config import read_config

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 96,
}
LINEAR: dict[str, dict[str, Any]] = {
    "attention": {"target_modules": ["q_proj", "v_proj"]},
    "all": {"target_modules": "all-linear", "r": 4, "lora_alpha": 16},
    "rank-stabilized": {"target_modules": ["q_proj", "down_proj"], "use_rslora": True, "r": 6},
    "patterns": {
        "target_modules": ["q_proj", "k_proj", "down_proj"],
        "rank_pattern": {"k_proj": 2, r"layers\.1\.self_attn\.q_proj": 3},
        "alpha_pattern": {"down_proj": 5},
    },
    "dora": {"target_modules": ["q_proj", "down_proj"], "use_dora": True},
    "saved": {"target_modules": ["q_proj"], "modules_to_save": ["lm_head", "embed_tokens"]},
    "embedding": {"target_modules": ["embed_tokens", "lm_head", "q_proj"]},
}
EXPERTS: dict[str, dict[str, Any]] = {
    "both": {
        "target_modules": ["q_proj"],
        "target_parameters": ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        "r": 2,
    },
    "one": {"target_modules": [], "target_parameters": ["mlp.experts.down_proj"], "r": 2},
}


def written(directory: Path, *, experts: bool = False, tied: bool = False) -> Path:
    torch.manual_seed(0)
    config = (
        Qwen3MoeConfig(**SIZES, moe_intermediate_size=24, num_experts=4, num_experts_per_tok=2)
        if experts
        else Qwen2Config(**SIZES, tie_word_embeddings=tied)
    )
    AutoModelForCausalLM.from_config(config).save_pretrained(directory)  # type: ignore[no-untyped-call]
    return directory


def loaded(base: Path, adapter: Path) -> dict[str, Tensor]:
    """Return the merged checkpoint, as tensors that are computed when they are used."""
    weights = load_file(base / "model.safetensors")
    return dict(AdaptedCheckpoint(base=base, adapter=adapter).merged(weights.items(), read_config(base)))


def as_parameter(tensor: Tensor) -> Tensor:
    found = torch.empty(tensor.shape)
    return found.copy_(tensor)


@pytest.mark.parametrize("case", LINEAR)
def test_a_dense_model_is_merged_as_peft_merges_it(tmp_path: Path, case: str) -> None:
    same_as_peft(tmp_path, written(tmp_path / "base"), LINEAR[case])


@pytest.mark.parametrize("case", EXPERTS)
def test_stacks_of_experts_are_merged_into_individual_experts(tmp_path: Path, case: str) -> None:
    same_as_peft(tmp_path, written(tmp_path / "base", experts=True), EXPERTS[case])


def same_as_peft(work: Path, base: Path, config: dict[str, Any]) -> None:
    model = peft_model(base, **config)
    write_adapter(model, work / "adapter")
    wanted = load_file(write_merged(model, work / "merged") / "model.safetensors")
    found = loaded(base, work / "adapter")
    assert found.keys() == wanted.keys()
    assert any(isinstance(tensor, MergedTensor) for tensor in found.values())
    for name, tensor in wanted.items():
        assert torch.equal(as_parameter(found[name]), tensor), name


def test_a_tied_matrix_is_changed_as_the_trained_model_has_it(tmp_path: Path) -> None:
    """PEFT's own merging adds the product twice there, once for each of the two places."""
    base = written(tmp_path / "base", tied=True)
    model = peft_model(base, target_modules=["embed_tokens", "lm_head", "q_proj"], ensure_weight_tying=True, size=0.05)
    model.train(mode=False)
    write_adapter(model, tmp_path / "adapter")
    served = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    merged = {name: computed(tensor) for name, tensor in loaded(base, tmp_path / "adapter").items()}
    served.load_state_dict(merged, strict=False)
    served.tie_weights()
    tokens = torch.arange(20).reshape(1, 20)
    with torch.no_grad():
        assert torch.allclose(model(tokens).logits, served(tokens).logits, atol=1e-5)


@pytest.mark.parametrize("config", [{"target_modules": ["embed_tokens"]}, {"target_modules": ["lm_head"]}])
def test_one_place_of_a_tied_matrix_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    base = written(tmp_path / "base", tied=True)
    write_adapter(peft_model(base, **config), tmp_path / "adapter")
    with pytest.raises(WeightsError, match="ties head and embedding"):
        loaded(base, tmp_path / "adapter")


@given(data=st.data())
def test_any_part_is_the_same_part_of_the_whole(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    tensor = _example(tmp_path_factory)
    whole = computed(tensor)
    dim = data.draw(st.integers(0, 1))
    start = data.draw(st.integers(0, whole.shape[dim] - 1))
    length = data.draw(st.integers(1, whole.shape[dim] - start))
    part = tensor.narrow(dim, start, length)
    span = (slice(None),) * dim + (slice(start, start + length),)
    assert isinstance(part, MergedTensor)
    assert isinstance(tensor[span], MergedTensor)
    assert torch.allclose(as_parameter(part), whole[span], atol=1e-6)
    assert torch.equal(as_parameter(tensor[span]), as_parameter(part))
    other = 1 - dim
    again = part.narrow(other, 0, 3)
    assert torch.allclose(as_parameter(again), whole[span].narrow(other, 0, 3), atol=1e-6)


_EXAMPLES: list[Tensor] = []


def _example(factory: pytest.TempPathFactory) -> Tensor:
    if not _EXAMPLES:
        work = factory.mktemp("dora")
        base = written(work / "base")
        write_adapter(peft_model(base, target_modules=["down_proj"], use_dora=True), work / "adapter")
        _EXAMPLES.append(loaded(base, work / "adapter")["model.layers.0.mlp.down_proj.weight"])
    return _EXAMPLES[0]


def test_any_other_use_computes_the_matrix(tmp_path: Path) -> None:
    base = written(tmp_path / "base")
    write_adapter(peft_model(base, target_modules=["q_proj"]), tmp_path / "adapter")
    tensor = loaded(base, tmp_path / "adapter")["model.layers.0.self_attn.q_proj.weight"]
    whole = computed(tensor)
    assert tensor.shape == whole.shape
    assert tensor.dtype == torch.float32
    assert torch.equal(tensor.t(), whole.t())
    assert torch.equal(torch.cat([tensor, tensor]), torch.cat([whole, whole]))
    assert torch.equal(tensor[::2], whole[::2])
    assert torch.equal(tensor[3], whole[3])
    assert torch.equal(tensor.to(torch.bfloat16), whole.to(torch.bfloat16))


def test_a_thousand_versions_do_not_drift(tmp_path: Path) -> None:
    """Each is merged into the base, not into the version before; in bfloat16, rounded once."""
    base = written(tmp_path / "base")
    name = "model.layers.0.self_attn.q_proj.weight"
    model = peft_model(base, target_modules=["q_proj"])
    write_adapter(model, tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    adapter, weights = load_file(file), load_file(base / "model.safetensors")
    served = torch.empty(weights[name].shape, dtype=torch.bfloat16)
    for version in range(1000):
        torch.manual_seed(version)
        save_file({key: torch.randn_like(tensor) * 0.01 for key, tensor in adapter.items()}, file)
        served.copy_(loaded(base, tmp_path / "adapter")[name])
    save_file(adapter, file)
    served.copy_(loaded(base, tmp_path / "adapter")[name])
    (a, b) = (adapter[f"base_model.model.{name.removesuffix('weight')}lora_{kind}.weight"] for kind in "AB")
    assert torch.equal(served, (weights[name] + (b @ a) * 1.0).to(torch.bfloat16))


def test_what_readers_of_embedding_and_head_get(tmp_path: Path) -> None:
    base = written(tmp_path / "base")
    for case, is_changed in (("attention", False), ("embedding", True)):
        model = peft_model(base, **LINEAR[case])
        write_adapter(model, tmp_path / case)
        wanted = load_file(write_merged(model, tmp_path / f"{case}-merged") / "model.safetensors")
        joined = tmp_path / f"{case}-joined"
        joined.mkdir()
        shared = AdaptedCheckpoint(base=base, adapter=tmp_path / case).shared(joined, read_config(base))
        assert (shared != base) == is_changed
        found = load_file(shared / "model.safetensors")
        for name in ("model.embed_tokens.weight", "lm_head.weight"):
            assert torch.equal(found[name], wanted[name])


def test_an_adapter_of_another_model_names_the_tensor(tmp_path: Path) -> None:
    base, other = written(tmp_path / "base"), written(tmp_path / "experts", experts=True)
    write_adapter(peft_model(base, target_modules=["down_proj"]), tmp_path / "adapter")
    adapter = Adapter.read(tmp_path / "adapter")
    shapes = {name: tuple(tensor.shape) for name, tensor in load_file(other / "model.safetensors").items()}
    with pytest.raises(WeightsError, match=r"layers\.0\.mlp\.down_proj"):
        adapter.changes(shapes)
