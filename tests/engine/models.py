"""Targets and drafters small enough to compare whole distributions, created on the fly."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from tests.families import OWN, model_of
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.eagle import EagleFormat
from tlt_common.drafter.format import Shapes
from tlt_common.drafter.mtp import MtpFormat
from tlt_common.drafter.reading import standard_format
from tlt_worker.checkpoints.model_config import read_config

_LEARNED = ("bias", "sinks")
"""Ends of the names of vectors that are learned and do not scale."""


def write_target(
    directory: Path,
    *,
    vocabulary: int = 16,
    hidden: int = 32,
    layers: int = 2,
    weight: float = 0.14,
    head: float = 0.35,
    seed: int = 11,
    family: str = "llama",
    kv_heads: int = 2,
) -> Path:
    """
    Write a model of a family, whose next token depends mostly, but not only, on the last one.

    Embeddings have length sqrt(hidden), so the final norm leaves them unchanged, and layers contribute little: a
    drafter that passes the embedding through is often right, and wrong often enough. `weight` scales the layers'
    contribution, `head` the model's certainty.
    """
    torch.manual_seed(seed)
    model = model_of(
        family,
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=OWN[family].get("num_attention_heads", 4),
        num_key_value_heads=kv_heads,
        head_dim=hidden // 4,
        max_position_embeddings=1024,
        tie_word_embeddings=False,
    )
    with torch.no_grad():
        for name, parameter in (*model.named_parameters(), *model.named_buffers()):
            if "embed_tokens" in name:
                parameter.copy_(torch.nn.functional.normalize(torch.randn_like(parameter), dim=-1) * hidden**0.5)
            elif parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * (head if "lm_head" in name else weight))
            elif name.endswith(_LEARNED):
                # SGLang keeps sinks in bfloat16.
                parameter.copy_((torch.randn_like(parameter) * weight).bfloat16())
    model.save_pretrained(directory)
    return directory


def write_qwen(directory: Path, family: str, *, layers: int = 2) -> Path:
    """Write a Qwen with random weights: biases and a tied head for Qwen2, normalized queries and keys for Qwen3."""
    torch.manual_seed(7)
    shape: dict[str, Any] = {
        "vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": layers,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "bos_token_id": 0, "eos_token_id": 1,
    }  # fmt: skip
    model: Any
    if family == "qwen2":
        model = Qwen2ForCausalLM(Qwen2Config(**shape, tie_word_embeddings=True))  # type: ignore[no-untyped-call] # transformers
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**shape, head_dim=16, tie_word_embeddings=False))  # type: ignore[no-untyped-call] # transformers
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" not in name:
                parameter.normal_(std=0.2)
    model.save_pretrained(directory)
    return directory


def write_drafter(
    directory: Path, target: Path, *, noise: float, gain: float = 1.0, seed: int = 3, depth: int = 1
) -> Path:
    """
    Write a drafter that passes the token's embedding through, times `gain`, with noise; its layers add only noise.

    A gain of -1 drafts the tokens least likely under `write_target`'s models, a gain of 0 random ones.
    """
    torch.manual_seed(seed)
    config = json.loads((target / "config.json").read_text())
    hidden = config["hidden_size"]
    form = standard_format(DrafterArchitecture.EAGLE, config)
    assert isinstance(form, EagleFormat)
    form = replace(form, depth=depth)
    tensors = {name: torch.randn(shape) * noise for name, shape in form.tensor_shapes().items()}
    tensors["fc.weight"][:, :hidden] += gain * torch.eye(hidden)
    tensors |= {name: torch.ones(hidden) for name in tensors if "norm" in name}
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(form.config(config)))
    return directory


def write_head(directory: Path, *, noise: float = 0.1, gain: float = 1.0, seed: int = 4) -> Path:
    """
    Add a head that predicts further tokens to a target's checkpoint, under the names of its family.

    Like `write_drafter`'s, it passes the token's embedding through, times `gain`, with noise.
    """
    form = head_format(directory)
    shapes = form.tensor_shapes() | form.frozen_shapes()
    tensors = load_file(directory / "model.safetensors") | _head(form, shapes, noise=noise, gain=gain, seed=seed)
    save_file(tensors, directory / "model.safetensors", {"format": "pt"})
    return directory


def write_published_head(directory: Path, target: Path, *, noise: float, gain: float, seed: int = 3) -> Path:
    """Write a head like `write_head`'s as it is published: without what stays the checkpoint's."""
    form = head_format(target)
    directory.mkdir(parents=True, exist_ok=True)
    tensors = _head(form, form.tensor_shapes(), noise=noise, gain=gain, seed=seed)
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(form.config(read_config(target))))
    return directory


def head_format(target: Path) -> MtpFormat:
    """Return the format of the head that a checkpoint has, or may be given."""
    form = standard_format(DrafterArchitecture.MTP, read_config(target))
    assert isinstance(form, MtpFormat)
    return form


def _head(form: MtpFormat, shapes: Shapes, *, noise: float, gain: float, seed: int) -> dict[str, Tensor]:
    generator, found = torch.Generator().manual_seed(seed), dict[str, Tensor]()
    for name, shape in shapes.items():
        tensor = noise * torch.randn(shape, generator=generator)
        if name == "fc.weight":
            first = form.hidden_size if form.head.state_first else 0
            tensor[:, first : first + form.hidden_size] += gain * torch.eye(form.hidden_size)
        found[form.published_name(name)] = tensor + 1 if "norm" in name else tensor
    return found


def load(directory: Path) -> Any:
    """Load the model in transformers, in float32."""
    model: Any = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    return model.eval()
