"""
A language model and its drafter, widened: they compute what they did, and a round costs what a larger model's does.

Random weights of a large shape accept no drafts, and a small model's rounds are too short for a GPU. A widened model
has what both lack: its text and accept lengths are the small one's, its bytes and products those of a large one.

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
    How much a Llama grows.

    Args:
        inner: Inner dimensions of its MLPs; at least as many as it has.
        root: The hidden size and the number of heads grow by its square; a power of two.
    """

    inner: int = INNER
    root: int = ROOT

    @property
    def factor(self) -> int:
        """Of the hidden size, and of the heads."""
        return self.root**2

    def config(self, config: Sizes) -> dict[str, Any]:
        """Return config.json of a model or a drafter, widened."""
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
        Return a tensor, widened.

        Args:
            name: As in the checkpoint of a Llama or of an EAGLE drafter for one.
            old: As it was, [size] or [outputs, inputs].
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
    Write both, widened, into `MODEL` and `DRAFTER` of a directory, unless they are there.

    Args:
        model: Checkpoint of a Llama.
        drafter: Its EAGLE drafter.
        directory: Receives them.
        widening: How much they grow.
        device: Where random weights are drawn: on a GPU it takes seconds, on a CPU minutes.
    """
    for source, name in ((model, MODEL), (drafter, DRAFTER)):
        target = directory / name
        if not (target / "config.json").is_file():
            _write(source, target, widening, device=device)


def _write(source: Path, target: Path, widening: Widening, *, device: str) -> None:
    """Write a checkpoint, one file per layer. Its config.json, which is written last, says that it is whole."""
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
