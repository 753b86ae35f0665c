"""
A language model and its drafter, widened: they compute the same, and a round costs as much as a larger model's.

Random weights of a large shape accept no drafts, and a small model's rounds are too short for a GPU. A widened model
combines the text and accept lengths of the small one with the bytes and products of a large one.

The hidden size grows by a square number, so that the larger root mean square of a norm divides by a power of two, which
no type rounds: new dimensions are 0 in every hidden state, heads and inner dimensions that are new are random and reach
no output.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tlt_bench.shapes import DRAFTER, MODEL

ROOT: Final = 2
"""Of the factor by which the hidden size and the heads grow: SmolLM2-135M's 576 become 2,304, and its 9 heads 36."""
INNER: Final = 32_768
"""Inner dimensions of its MLPs, which make SmolLM2-135M one of 7.3 billion parameters."""

Sizes = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """
    Growth of a Llama.

    Args:
        inner: Inner dimensions of its MLPs; at least as many as it has.
        root: The hidden size and the number of heads grow by its square; a power of two.
    """

    inner: int = INNER
    root: int = ROOT

    @property
    def factor(self) -> int:
        """Growth factor of the hidden size and the heads."""
        return self.root**2

    def config(self, config: Sizes) -> dict[str, Any]:
        """Return the widened config.json of a model or a drafter."""
        names = ("hidden_size", "num_attention_heads", "num_key_value_heads")
        return {
            **config,
            **{name: config[name] * self.factor for name in names},
            "intermediate_size": self.inner,
            "rms_norm_eps": config["rms_norm_eps"] / self.factor,
            "dtype": "bfloat16",
            "torch_dtype": "bfloat16",
        }

    def tensor(self, name: str, old: torch.Tensor, draw: Callable[[tuple[int, int]], torch.Tensor]) -> torch.Tensor:
        """
        Return a widened tensor.

        Args:
            name: Name in the checkpoint of a Llama or its EAGLE drafter.
            old: The original tensor, [size] or [outputs, inputs].
            draw: Draws a matrix of random weights.

        Raises:
            ValueError: The name is unknown.
        """
        sizes = [self.factor * size for size in old.shape]
        match name.split(".")[-2]:
            case "norm" | "input_layernorm" | "post_attention_layernorm":
                return _corner(old / self.root, old.new_ones(sizes))
            case "embed_tokens" | "lm_head":
                return _corner(old, old.new_zeros(len(old), sizes[1]))
            case "q_proj" | "k_proj" | "v_proj":
                return _corner(old, draw((sizes[0], sizes[1])))
            case "gate_proj" | "up_proj":
                return _corner(old, draw((self.inner, sizes[1])))
            case "down_proj":
                return _corner(old, old.new_zeros(sizes[0], self.inner))
            case "o_proj":
                return _corner(old, old.new_zeros(sizes))
            case "fc":  # of an embedding and a hidden state beside it
                inputs = old.chunk(old.dim(), dim=-1)
                return torch.cat([_corner(each, each.new_zeros(sizes[:1] * old.dim())) for each in inputs], dim=-1)
        raise ValueError(f"{name} is no tensor of a Llama or of an EAGLE drafter for one")


def write_missing(model: Path, drafter: Path, directory: Path, widening: Widening, *, device: str) -> None:
    """
    Write the widened model and drafter into `MODEL` and `DRAFTER` of a directory, unless they exist.

    Args:
        model: Checkpoint of a Llama.
        drafter: Its EAGLE drafter.
        directory: Parent of both directories.
        widening: Growth of both.
        device: Device on which random weights are drawn: seconds on a GPU, minutes on a CPU.
    """
    for source, name in ((model, MODEL), (drafter, DRAFTER)):
        target = directory / name
        if not (target / "config.json").is_file():
            _write(source, target, widening, device=device)


def _write(source: Path, target: Path, widening: Widening, *, device: str) -> None:
    """Write a checkpoint, one file per layer. Its config.json is written last and marks completeness."""
    generator = torch.Generator(device).manual_seed(0)

    def draw(size: tuple[int, int]) -> torch.Tensor:
        scale = size[1] ** -0.5
        return torch.randn(size, generator=generator, device=device, dtype=torch.bfloat16).mul_(scale)

    target.mkdir(parents=True, exist_ok=True)
    with safe_open(source / "model.safetensors", "pt", device=device) as file:
        files: dict[str, str] = {name: _file_of(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        for each in sorted(set(files.values())):
            tensors = {
                name: widening.tensor(name, file.get_tensor(name).to(torch.bfloat16), draw).cpu()
                for name, its in files.items()
                if its == each
            }
            save_file(tensors, target / each, {"format": "pt"})
    if len(set(files.values())) > 1:
        (target / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}) + "\n")
    for path in source.iterdir():
        if path.suffix in {".json", ".jinja"} and path.name != "config.json":
            shutil.copyfile(path, target / path.name)
    config = widening.config(json.loads((source / "config.json").read_text()))
    (target / "config.json").write_text(json.dumps(config, indent=1) + "\n")


def _file_of(name: str) -> str:
    """Return the file of a tensor: one for each layer of a model, one for a whole drafter."""
    if not name.startswith("model."):
        return "model.safetensors"
    layer = name.removeprefix("model.layers.").split(".")[0]
    return f"model-{layer if layer.isdigit() else 'outer'}.safetensors"


def _corner(old: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """Put a tensor into the corner of a larger one."""
    new[tuple(slice(size) for size in old.shape)] = old
    return new
