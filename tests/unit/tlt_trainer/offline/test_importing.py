"""Drafters as their authors publish them, imported, compute what they computed."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from typer.testing import CliRunner

from tests.unit.tlt_trainer.tiny import causal
from tlt_common.drafter.meta import CONFIG_FILE, WEIGHTS_FILE
from tlt_common.drafter.reading import format_of
from tlt_common.errors import ConfigError, WeightsError
from tlt_trainer.cli import app
from tlt_trainer.drafter.files import from_files
from tlt_trainer.drafter.kinds.draft_model import DraftModel
from tlt_trainer.drafter.kinds.untrained import drafter_of
from tlt_trainer.offline.exporting import export_to
from tlt_trainer.offline.importing import import_to
from tlt_worker.checkpoints.drafter import load_drafter
from tlt_worker.checkpoints.drafter_files import read_format

TARGET: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 48, "hidden_size": 32,
    "intermediate_size": 64, "num_hidden_layers": 9, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu",
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
}  # fmt: skip
DRAFT_TOKENS = 40
Config = dict[str, Any]
Tensors = dict[str, Tensor]


def random_layer(reads: int) -> Tensors:
    sizes = {
        "self_attn.q_proj": (32, reads), "self_attn.k_proj": (16, reads), "self_attn.v_proj": (16, reads),
        "self_attn.o_proj": (32, 32), "mlp.gate_proj": (64, 32), "mlp.up_proj": (64, 32), "mlp.down_proj": (32, 64),
    }  # fmt: skip
    return {f"{name}.weight": torch.randn(size) * 0.2 for name, size in sizes.items()}


def norm(scale: float = 0.2) -> Tensor:
    return 1 + torch.randn(32) * scale


def of_eagles_authors() -> tuple[Config, Tensors]:
    """Named like a whole Llama, with the target's number of layers and embedding."""
    layer = {**random_layer(32), "post_attention_layernorm.weight": norm()}
    tensors = {f"layers.0.{name}": tensor for name, tensor in layer.items()}
    tensors |= {"fc.weight": torch.randn(32, 64) * 0.2, "embed_tokens.weight": torch.randn(48, 32)}
    plain = {key: value for key, value in TARGET.items() if key not in {"rope_parameters", "head_dim"}}
    return {**plain, "bias": True, "rope_theta": 10_000.0, "torch_dtype": "float16"}, tensors


def named_by_its_target() -> tuple[Config, Tensors]:
    config, tensors = of_eagles_authors()
    return {**config, "architectures": ["Qwen3ForCausalLMEagle"], "num_hidden_layers": 1, "head_dim": 8}, tensors


def of_speculators() -> tuple[Config, Tensors]:
    _, tensors = of_eagles_authors()
    layer = {**TARGET, "num_hidden_layers": 1}
    config = {
        "architectures": ["EagleSpeculator", "LlamaDecoderLayer"], "speculators_model_type": "eagle",
        "transformer_layer_config": layer, "layernorms": False, "fusion_bias": False,
        "speculators_config": {"algorithm": "eagle"},
    }  # fmt: skip
    names = {"fc.": "fusion_fc.", "layers.0.": "transformer."}
    renamed = {
        new + name.removeprefix(old): tensor
        for name, tensor in tensors.items()
        for old, new in names.items()
        if name.startswith(old)
    }
    return config, renamed


def of_eagle3s_authors(layer_name: str = "midlayer.") -> tuple[Config, Tensors]:
    layer = random_layer(64) | {
        name: norm() for name in ("input_layernorm.weight", "hidden_norm.weight", "post_attention_layernorm.weight")
    }
    known = torch.randperm(48)[:DRAFT_TOKENS].sort().values
    tensors = {f"{layer_name}{name}": tensor for name, tensor in layer.items()} | {
        "fc.weight": torch.randn(32, 96) * 0.2,
        "norm.weight": norm(),
        "lm_head.weight": torch.randn(DRAFT_TOKENS, 32) * 0.2,
        "d2t": known - torch.arange(DRAFT_TOKENS),
        "t2d": torch.isin(torch.arange(48), known),
    }
    config = {**TARGET, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 40}
    return config, tensors


def of_speculators_eagle3() -> tuple[Config, Tensors]:
    config, tensors = of_eagle3s_authors("layers.0.")
    tensors["embed_tokens.weight"] = torch.randn(48, 32)
    return {
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": DRAFT_TOKENS,
        "norm_before_residual": False, "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": [2, 4, 7],
        "transformer_layer_config": {**config, "architectures": None}, "speculators_config": {"algorithm": "eagle3"},
    }, tensors  # fmt: skip


def write(directory: Path, config: Config, tensors: Tensors, *, pickled: bool = False) -> Path:
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    if pickled:
        buffer = io.BytesIO()
        torch.save(tensors, buffer)
        (directory / "pytorch_model.bin").write_bytes(buffer.getvalue())
    else:
        (directory / "model.safetensors").write_bytes(save({name: it.contiguous() for name, it in tensors.items()}))
    return directory


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(TARGET))
    return tmp_path / "model"


def computed_by_the_original(tensors: Tensors, embedded: Tensor, states: Tensor, positions: Tensor) -> Tensor:
    """What a layout's authors compute, by its own names: a Llama layer of transformers, with what differs from one."""
    config = LlamaConfig(**{key: value for key, value in TARGET.items() if key != "architectures"})
    config._attn_implementation = "eager"
    layer, rotary = LlamaDecoderLayer(config, 0).eval(), LlamaRotaryEmbedding(config)
    prefix = next(name for name in tensors if "q_proj" in name).removesuffix("self_attn.q_proj.weight")
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    fc = next(tensor for name, tensor in tensors.items() if name.endswith("fc.weight"))
    reads = own["self_attn.q_proj.weight"].shape[1]
    for name in ("q_proj", "k_proj", "v_proj"):
        setattr(layer.self_attn, name, torch.nn.Linear(reads, own[f"self_attn.{name}.weight"].shape[0], bias=False))
    layer.load_state_dict(own, strict=False)
    mask = torch.full((len(positions), len(positions)), float("-inf")).triu(1)[None, None]

    def normed(x: Tensor, name: str) -> Tensor:
        return functional.rms_norm(x, (32,), own[name], 1e-6)

    if reads == 32:  # EAGLE: no norm before attention
        x = torch.cat((embedded, states), -1) @ fc.T
        read = x
    else:
        x = states @ fc.T
        read = torch.cat((normed(embedded, "input_layernorm.weight"), normed(x, "hidden_norm.weight")), -1)
    turn = rotary(read, positions[None])
    attended = layer.self_attn(read[None], attention_mask=mask, position_embeddings=turn)[0][0]
    x = x + attended
    out: Tensor = x + layer.mlp(layer.post_attention_layernorm(x))
    return out


LAYOUTS = [of_eagles_authors, named_by_its_target, of_speculators, of_eagle3s_authors, of_speculators_eagle3]


@pytest.mark.parametrize("pickled", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_imported_drafter_computes_what_its_authors_does(
    tmp_path: Path, model: Path, layout: Callable[[], tuple[Config, Tensors]], pickled: bool
) -> None:
    torch.manual_seed(3)
    config, tensors = layout()
    source = write(tmp_path / "source", config, tensors, pickled=pickled)
    import_to(str(source), tmp_path / "out", model)

    form = read_format(tmp_path / "out", TARGET)
    assert load_drafter(tmp_path / "out", form).form == form  # the engine takes it
    files = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    drafter = drafter_of(form)
    assert isinstance(drafter, DraftModel)
    drafter.load_state_dict(from_files(files, form))
    states = torch.randn(7, 32 * max(1, len(form.layers)))
    embedded, positions = torch.randn(7, 32), torch.arange(100, 107)
    with torch.no_grad():
        expected = computed_by_the_original(tensors, embedded, states, positions)
        begun = drafter.begin(torch.cat((states, states.new_zeros(7, 32)), -1) if form.has_map else states)
        found = drafter(embedded, begun, drafter.angles(positions), causal)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    if form.has_map:
        assert torch.equal(load_file(tmp_path / "out" / "model.safetensors")["d2t"], tensors["d2t"])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_drafter_in_safetensors_needs_no_import(tmp_path: Path, layout: Callable[[], tuple[Config, Tensors]]) -> None:
    config, tensors = layout()
    source = write(tmp_path / "source", config, tensors)
    form = format_of(config, TARGET)
    assert load_drafter(source, form).tensors.keys() >= form.tensor_shapes().keys()
    from_files({"model.safetensors": (source / "model.safetensors").read_bytes()}, form)


def test_layers_are_numbered_by_their_outputs(tmp_path: Path, model: Path) -> None:
    config, tensors = of_speculators_eagle3()
    import_to(str(write(tmp_path / "source", config, tensors)), tmp_path / "out", model)
    assert read_format(tmp_path / "out", TARGET).layers == (1, 3, 6)


def test_what_was_changed_is_said(tmp_path: Path, model: Path) -> None:
    config, tensors = of_eagles_authors()
    source = write(tmp_path / "source", config, tensors, pickled=True)
    done = CliRunner().invoke(app, ["import", str(source), str(tmp_path / "out"), "--model", str(model)])
    assert done.exit_code == 0
    for part in (
        "architectures: ['LlamaForCausalLM'] -> ['LlamaForCausalLMEagle']", "num_hidden_layers: 9 -> 1",
        "embed_tokens.weight left out: the target has it", "pytorch_model.bin -> model.safetensors",
    ):  # fmt: skip
        assert part in done.output


def test_biases_are_kept_for_the_engine(tmp_path: Path, model: Path) -> None:
    config, tensors = of_eagles_authors()
    biases = {"fc.bias": 32, "layers.0.self_attn.q_proj.bias": 32, "layers.0.self_attn.k_proj.bias": 16}
    tensors |= {name: torch.randn(size) for name, size in biases.items()}
    import_to(str(write(tmp_path / "source", {**config, "attention_bias": True}, tensors)), tmp_path / "out", model)
    form = read_format(tmp_path / "out", TARGET)
    taken = load_drafter(tmp_path / "out", form).tensors
    assert all(torch.equal(taken[name], tensors[name]) for name in biases)


def changed(layout: Callable[[], tuple[Config, Tensors]], **values: Any) -> tuple[Config, Tensors]:
    config, tensors = layout()
    return {**config, **values}, tensors


def with_tensor(layout: Callable[[], tuple[Config, Tensors]], name: str, tensor: Tensor) -> tuple[Config, Tensors]:
    config, tensors = layout()
    return config, {**tensors, name: tensor}


def test_norms_of_eagle_3_1_are_read_by_their_old_names_too(tmp_path: Path, model: Path) -> None:
    config, tensors = of_eagle3s_authors()
    tensors |= {f"aux_norm_{name}.weight": torch.full((32,), 1.0 + n) for n, name in enumerate(("low", "mid", "high"))}
    source = write(tmp_path / "source", {**config, "use_aux_norm": True, "norm_output": True}, tensors)
    import_to(str(source), tmp_path / "out", model)
    written = json.loads((tmp_path / "out" / CONFIG_FILE).read_text())
    assert (written["fc_norm"], written["norm_output"]) == (True, True)
    kept = load_file(tmp_path / "out" / WEIGHTS_FILE)
    assert [float(kept[f"fc_norm.{n}.weight"][0]) for n in range(3)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("published", "reason"),
    [
        (changed(of_speculators_eagle3, norm_before_residual=True), "norm_before_residual is set"),
        (changed(of_eagle3s_authors, norm_before_residual=True), "norm_before_residual is set"),
        (changed(of_speculators_eagle3, norm_before_fc=True), "input_norm.weight is missing"),
        (changed(of_eagles_authors, fc_norm=True), "fc_norm is set"),
        (changed(of_speculators_eagle3, target_hidden_size=64), "target_hidden_size is 64"),
        (changed(of_speculators, layernorms=True), "layernorms is set"),
        (changed(of_speculators, speculators_model_type="dflash"), "speculators_model_type is 'dflash'"),
        (changed(of_speculators, transformer_layer_config=None), "transformer_layer_config is None"),
        (changed(of_eagles_authors, mlp_bias=True), "mlp_bias is set"),
        (changed(of_eagles_authors, num_hidden_layers=2), "layers.1.self_attn.q_proj.weight is missing"),
        (changed(of_eagles_authors, hidden_act="gelu"), "hidden_act is 'gelu'"),
        (changed(of_eagles_authors, architectures=["MedusaModel"]), "architecture is 'MedusaModel'"),
        (changed(of_eagles_authors, hidden_size=64), "hidden_size is 64; accepted: 32"),
        (changed(of_eagles_authors, rope_scaling={"type": "dynamic", "factor": 2.0}), "rope type is 'dynamic'"),
        (with_tensor(of_eagles_authors, "layers.1.mlp.up_proj.weight", torch.zeros(64, 32)), "layers.1.mlp.up_proj"),
        (with_tensor(of_eagle3s_authors, "midlayer.self_attn.q_norm.weight", torch.ones(8)), "q_norm.weight is not"),
        (with_tensor(of_eagle3s_authors, "midlayer.self_attn.q_proj.bias", torch.ones(32)), "q_proj.bias is not"),
        (with_tensor(of_eagle3s_authors, "d2t", torch.zeros(40, dtype=torch.int64) - 1), "d2t"),
    ],
)
def test_what_no_engine_computes_is_refused_by_name(
    tmp_path: Path, model: Path, published: tuple[Config, Tensors], reason: str
) -> None:
    source = write(tmp_path / "source", *published)
    with pytest.raises(ConfigError, match=reason) as refusal:
        import_to(str(source), tmp_path / "out", model)
    assert str(source) in refusal.value.message
    assert not (tmp_path / "out").exists()


def test_weights_that_are_missing_or_no_pickle_are_named(tmp_path: Path, model: Path) -> None:
    source = write(tmp_path / "source", *of_eagles_authors())
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    with pytest.raises(ConfigError, match=r"pytorch_model\.bin cannot be read"):
        import_to(str(source), tmp_path / "out", model)
    (source / "pytorch_model.bin").unlink()
    with pytest.raises(ConfigError, match=r"has no model\.safetensors and no pytorch_model\.bin"):
        import_to(str(source), tmp_path / "out", model)


def of_dspark() -> tuple[Config, Tensors]:
    """With a confidence head, which is not used, and names of its own."""

    def layer() -> Tensors:
        norms = {f"{name}_layernorm.weight": norm() for name in ("input", "post_attention")}
        return random_layer(32) | norms | {f"self_attn.{name}_norm.weight": torch.rand(8) for name in "qk"}

    tensors = {f"model.layers.{number}.{name}": tensor for number in range(2) for name, tensor in layer().items()} | {
        "encoder.fc.weight": torch.randn(32, 64), "encoder.output_norm_enc.weight": norm(), "norm.weight": norm(),
        "markov_head.markov_w1.weight": torch.randn(48, 4), "markov_head.markov_w2.weight": torch.randn(48, 4),
        "markov_head.gate_proj.weight": torch.randn(4, 36), "markov_head.gate_proj.bias": torch.randn(4),
        "confidence_head.proj.weight": torch.randn(1, 36), "confidence_head.proj.bias": torch.randn(1),
        "embed_tokens.weight": torch.randn(48, 32), "lm_head.weight": torch.randn(48, 32),
    }  # fmt: skip
    config = {
        **TARGET, "architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "num_hidden_layers": 2,
        "block_size": 5, "mask_token_id": 47, "target_layer_ids": [1, 6], "markov_rank": 4, "markov_head_type": "gated",
    }  # fmt: skip
    return config, tensors


def test_an_imported_block_drafter_is_exported_as_it_was(tmp_path: Path, model: Path) -> None:
    """Bit by bit, in SGLang's names."""
    config, tensors = of_dspark()
    source = write(tmp_path / "source", config, tensors)
    changes = "\n".join(import_to(str(source), tmp_path / "out", model))
    assert "encoder.output_norm_enc.weight -> hidden_norm.weight" in changes
    assert "confidence_head.proj.weight left out: it has no use" in changes
    assert "lm_head.weight left out: the target has it" in changes
    export_to(str(tmp_path / "out"), tmp_path / "exported", "sglang")
    written = load_file(tmp_path / "exported" / "model.safetensors")
    renamed = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    renamed["fc.weight"] = renamed.pop("encoder.fc.weight")
    renamed["hidden_norm.weight"] = renamed.pop("encoder.output_norm_enc.weight")
    assert written.keys() == format_of(config, TARGET).tensor_shapes().keys()
    assert all(torch.equal(tensor, renamed[name]) for name, tensor in written.items())
    said = json.loads((tmp_path / "exported" / "config.json").read_text())
    assert {name: said[name] for name in config if name.startswith(("markov", "mask", "target", "block"))} == {
        name: config[name] for name in config if name.startswith(("markov", "mask", "target", "block"))
    }
    form = read_format(source, TARGET)
    assert load_drafter(source, form).tensors.keys() == written.keys(), "an engine takes it as it is"


def test_a_mask_embedding_of_its_own_is_refused(tmp_path: Path, model: Path) -> None:
    source = write(tmp_path / "source", *of_dspark())
    (source / "mask_embedding.pt").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"mask_embedding\.pt"):
        import_to(str(source), tmp_path / "out", model)
    with pytest.raises(WeightsError, match=r"mask_embedding\.pt"):
        read_format(source, TARGET)
