"""Checkpoints are judged by their headers."""

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tlt_common.errors import ConfigError, WeightsError
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.policy import ModelTensors, read_headers, total_bytes


def write(directory: Path, **tensors: torch.Tensor) -> Path:
    directory.mkdir(exist_ok=True)
    copies = {name: tensor.clone() for name, tensor in tensors.items()}  # the library refuses shared memory
    save_file(copies, directory / "model.safetensors")
    return directory


def model(directory: Path, is_tied: bool = False, **tensors: torch.Tensor) -> ModelTensors:
    write(directory, **tensors)
    (directory / "config.json").write_text(json.dumps({"tie_word_embeddings": is_tied}))
    return ModelTensors.of(directory)


def test_headers_say_what_files_hold(tmp_path: Path) -> None:
    directory = write(tmp_path, a=torch.zeros(2, 3), b=torch.zeros(4, dtype=torch.bfloat16))
    headers = read_headers(directory)
    assert {name: (header.dtype, header.shape) for name, header in headers.items()} == {
        "a": ("F32", (2, 3)),
        "b": ("BF16", (4,)),
    }
    assert total_bytes(directory) == (directory / "model.safetensors").stat().st_size


@pytest.mark.parametrize("kept_bytes", [0, 4, 60, -1])
def test_damaged_files_are_refused(tmp_path: Path, kept_bytes: int) -> None:
    file = write(tmp_path, a=torch.zeros(20)) / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept_bytes])
    with pytest.raises(WeightsError, match=r"model\.safetensors"):
        read_headers(tmp_path)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        *((header, r"model\.safetensors") for header in (b"[]", b'{"a": 1}', b'{"a": {"dtype": "F32"}}')),
        *((header, r"model\.safetensors") for header in (b"\xff\xfe", b"no JSON")),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path: Path, header: bytes, said: str) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(WeightsError, match=said):
        read_headers(tmp_path)


def test_an_empty_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="safetensors"):
        read_headers(tmp_path)
    with pytest.raises(ConfigError, match=r"config\.json"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="not a JSON object"):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({"a": torch.zeros(2, 4)}, r"a has shape \[2, 4\]; the running model has \[2, 3\]"),
        ({}, r"a is missing.*\[2, 3\]"),
        ({"a": torch.zeros(2, 3), "c": torch.zeros(1)}, r"c of shape \[1\] is not in the model"),
        ({"a": torch.zeros(2, 3, dtype=torch.int64)}, "a has type I64"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(
    tmp_path: Path, offered: dict[str, torch.Tensor], said: str
) -> None:
    running = model(tmp_path / "running", a=torch.zeros(2, 3), b=torch.zeros(1))
    with pytest.raises(WeightsError, match=said):
        running.check(write(tmp_path / "offered", b=torch.zeros(1), **offered))


def test_weights_of_another_float_type_fit(tmp_path: Path) -> None:
    running = model(tmp_path / "running", a=torch.zeros(2, 3))
    running.check(write(tmp_path / "offered", a=torch.zeros(2, 3, dtype=torch.bfloat16)))


EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
INV_FREQ = "model.layers.0.self_attn.rotary_emb.inv_freq"
OLD = torch.arange(6.0).reshape(2, 3)
NEW = OLD + 1
BODY = {EMBEDDING: NEW, "model.norm.weight": torch.ones(3), "model.layers.0.self_attn.q_proj.bias": torch.ones(2)}


@pytest.mark.parametrize("is_in_checkpoint", [True, False], ids=["written", "omitted"])
@pytest.mark.parametrize(
    ("is_tied", "head", "said"),
    [
        (True, None, ""),
        (True, NEW, ""),
        (True, NEW.to(torch.bfloat16), ""),
        (True, NEW + 1, "lm_head.weight differs from model.embed_tokens.weight"),
        (True, OLD, "lm_head.weight differs from model.embed_tokens.weight"),
        (True, torch.ones(4, 3), "lm_head.weight has shape"),
        (False, None, "lm_head.weight is missing"),
        (False, NEW, ""),
        (False, NEW + 1, ""),
        (False, torch.ones(4, 3), "lm_head.weight has shape"),
    ],
)
def test_an_update_has_its_head_unless_it_is_tied_and_a_tied_one_is_the_embedding(
    tmp_path: Path, is_tied: bool, head: torch.Tensor | None, said: str, is_in_checkpoint: bool
) -> None:
    has_head = is_in_checkpoint or not is_tied
    running = model(tmp_path / "running", is_tied, **{**BODY, EMBEDDING: OLD}, **({HEAD: OLD} if has_head else {}))
    offered = write(tmp_path / "offered", **BODY, **({} if head is None else {HEAD: head}))
    if said:
        with pytest.raises(WeightsError, match=said):
            running.check(offered)
    else:
        assert running.check(offered) == total_bytes(offered)


@pytest.mark.parametrize("omitted", BODY)
def test_nothing_else_is_optional(tmp_path: Path, omitted: str) -> None:
    running = model(tmp_path / "running", True, **BODY)
    with pytest.raises(WeightsError, match=f"tensor {omitted} is missing"):
        running.check(write(tmp_path / "offered", **{name: it for name, it in BODY.items() if name != omitted}))


def test_buffers_that_follow_from_the_configuration_are_optional(tmp_path: Path) -> None:
    bare, full = {**BODY}, {**BODY, INV_FREQ: torch.ones(2)}
    model(tmp_path / "bare", True, **bare).check(write(tmp_path / "full", **full))
    model(tmp_path / "old", True, **full).check(write(tmp_path / "new", **bare))


@pytest.mark.parametrize(
    ("config", "is_tied"),
    [
        ({}, False),
        ({"tie_word_embeddings": True}, True),
        ({"tie_word_embeddings": False, "model_type": "gemma2"}, False),
        ({"model_type": "gemma2"}, True),
        ({"model_type": "qwen2"}, False),
        ({"model_type": "llama"}, False),
        ({"model_type": "unheard_of"}, False),
        ({"text_config": {"tie_word_embeddings": True}}, True),
        ({"tie_word_embeddings": False, "text_config": {"tie_word_embeddings": True}}, False),
    ],
)
def test_a_head_is_tied_as_transformers_reads_the_configuration(
    tmp_path: Path, config: dict[str, object], is_tied: bool
) -> None:
    directory = write(tmp_path / "model", **BODY)
    (directory / "config.json").write_text(json.dumps(config))
    assert ModelTensors.of(directory).is_tied == is_tied


def test_a_model_without_its_head_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no lm_head.weight, and its config.json does not tie it"):
        model(tmp_path / "untied", False, **BODY).require_startable(tmp_path / "untied")
    with pytest.raises(ConfigError, match=r"differs from model.embed_tokens"):
        model(tmp_path / "tied", True, **BODY, **{HEAD: OLD}).require_startable(tmp_path / "tied")
    model(tmp_path / "good", True, **BODY).require_startable(tmp_path / "good")


QUERY = "model.layers.0.self_attn.q_proj.weight"


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ({f"_orig_mod.{name}": it for name, it in BODY.items()}, r"instead: _orig_mod\.model.*and 2 others.*unwrapped"),
        ({**BODY, "x": torch.ones(1)}, "tensor x of shape"),
        ({**BODY, f"{QUERY}_scale_inv": NEW}, r"They are quantized: send the weights in bfloat16"),
        ({"model.layers.0.mlp.experts.down_proj_blocks": NEW}, "They are quantized"),
        ({"transformer.wte.weight": NEW}, "is missing and 2 others; .* sent instead: transformer.wte.weight"),
        (
            {f"base_model.model.{name}": it for name, it in BODY.items()} | {"base_model.model.q.lora_A.weight": NEW},
            "Merge the adapter",
        ),
    ],
)
def test_a_refusal_says_what_came_instead(tmp_path: Path, offered: dict[str, torch.Tensor], said: str) -> None:
    running = model(tmp_path / "running", True, **BODY)
    with pytest.raises(WeightsError, match=said):
        running.check(write(tmp_path / "offered", **offered))


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": [], "shape": [2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [[2]], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]},
        {"dtype": "F32", "shape": [2], "data_offsets": [0, float("inf")]},
    ],
)
def test_a_header_with_values_of_other_types_is_refused(entry: dict[str, object], tmp_path: Path) -> None:
    header = json.dumps({"a": entry}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(WeightsError):
        read_headers(tmp_path)
