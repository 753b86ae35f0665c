"""
Models with the shapes of public ones and drafters for them, with random weights: for timing, without a network.

Their output is noise and no draft is ever accepted, so acceptance must be simulated. As a script, `python -m
tlt_bench.random_models DIRECTORY NAME...` writes missing models.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from tlt_bench.shapes import DRAFTER, DRAFTER3, MODEL, SHAPE, SHAPES, Shape, reduced
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.reading import standard_format

Sizes = dict[str, tuple[int, ...]]


def write_missing(directory: Path, names: Sequence[str], *, device: str) -> dict[str, float]:
    """
    Write the named models into subdirectories, at full size for a GPU and reduced for a CPU; return the GiB of each.

    Raises:
        ValueError: A name is unknown.
    """
    found = {}
    for name in names:
        if name not in SHAPES:
            raise ValueError(f"unknown model {name!r}; accepted: {', '.join(SHAPES)}")
        shape = SHAPES[name] if device == "cuda" else reduced(SHAPES[name])
        if not is_written(directory / name):
            write(directory / name, shape, device=device)
        files = (directory / name / MODEL).glob("*.safetensors")
        found[name] = sum(file.stat().st_size for file in files) / 2**30
    return found


def is_written(directory: Path) -> bool:
    """Return whether a model of `SHAPES` is complete, which its last written file shows."""
    return (directory / DRAFTER3 / "config.json").is_file()


def write(directory: Path, shape: Shape = SHAPE, *, seed: int = 0, device: str = "cpu") -> None:
    """
    Write the model, one file per layer, and its drafters.

    Args:
        directory: Parent of `MODEL`, `DRAFTER` and, for models with at least seven layers, `DRAFTER3`.
        shape: The model's config.json.
        seed: Seed of the weights.
        device: Device on which random numbers are drawn: seconds on a GPU, minutes on a CPU for 7B.
    """
    generator = torch.Generator(device).manual_seed(seed)
    for number, sizes in enumerate(_files(shape)):
        _save(sizes, directory / MODEL / f"model-{number:05d}.safetensors", generator)
    _write_config(directory / MODEL, shape)
    for name, architecture in ((DRAFTER, DrafterArchitecture.EAGLE), (DRAFTER3, DrafterArchitecture.EAGLE3)):
        if architecture is DrafterArchitecture.EAGLE3 and shape["num_hidden_layers"] < 7:
            continue
        form = standard_format(architecture, shape)
        extra = {}
        if form.has_map:  # the map of its vocabulary to the target's: offsets, here to the same tokens
            extra["d2t"] = torch.zeros(form.draft_vocab_size, dtype=torch.int64)
        _save(form.tensor_shapes(), directory / name / "model.safetensors", generator, extra)
        _write_config(directory / name, form.config(shape))


def _files(shape: Shape) -> Iterator[Sizes]:
    hidden, vocabulary = shape["hidden_size"], shape["vocab_size"]
    head = shape.get("head_dim") or hidden // shape["num_attention_heads"]
    queries, keys = shape["num_attention_heads"] * head, shape["num_key_value_heads"] * head
    outer: Sizes = {"model.embed_tokens.weight": (vocabulary, hidden), "model.norm.weight": (hidden,)}
    if not shape["tie_word_embeddings"]:
        outer["lm_head.weight"] = (vocabulary, hidden)
    yield outer
    for layer in range(shape["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        sizes: Sizes = {
            "self_attn.q_proj.weight": (queries, hidden),
            "self_attn.k_proj.weight": (keys, hidden),
            "self_attn.v_proj.weight": (keys, hidden),
            "self_attn.o_proj.weight": (hidden, queries),
            "input_layernorm.weight": (hidden,),
            "post_attention_layernorm.weight": (hidden,),
        }
        if shape["model_type"].startswith("qwen3"):
            sizes |= {"self_attn.q_norm.weight": (head,), "self_attn.k_norm.weight": (head,)}
        if experts := shape.get("num_experts"):
            sizes["mlp.gate.weight"] = (experts, hidden)
            for expert in range(experts):
                sizes |= _mlp(f"mlp.experts.{expert}.", hidden, shape["moe_intermediate_size"])
        else:
            sizes |= _mlp("mlp.", hidden, shape["intermediate_size"])
        yield {prefix + name: size for name, size in sizes.items()}


def _mlp(prefix: str, hidden: int, inner: int) -> Sizes:
    return {
        f"{prefix}gate_proj.weight": (inner, hidden),
        f"{prefix}up_proj.weight": (inner, hidden),
        f"{prefix}down_proj.weight": (hidden, inner),
    }


def _save(
    sizes: Sizes, path: Path, generator: torch.Generator, extra: Mapping[str, torch.Tensor] | None = None
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    tensors = {name: _random(size, generator) for name, size in sizes.items()}
    save_file({**tensors, **(extra or {})}, path, {"format": "pt"})


def _random(size: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if len(size) == 1:
        return torch.ones(size, dtype=torch.bfloat16)
    drawn = torch.randn(size, generator=generator, device=generator.device, dtype=torch.bfloat16)
    scaled: torch.Tensor = drawn.mul_(size[-1] ** -0.5).cpu()
    return scaled


def _write_config(directory: Path, config: Mapping[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(dict(config), indent=1) + "\n")


if __name__ == "__main__":
    write_missing(Path(sys.argv[1]), sys.argv[2:], device="cuda" if torch.cuda.is_available() else "cpu")
