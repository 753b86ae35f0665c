"""
Attention of spot training on this machine's device: `python -m tlt_bench.gpu.attention FILE`.

Runs forward and backward on samples of different lengths. Writes the error of output and gradients relative to
reference attention in float32, and the speedup over it.
"""

import json
import sys
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from tlt_bench.gpu.timing import seconds
from tlt_trainer.drafter.attention.causal import CausalAttention
from tlt_trainer.drafter.attention.choice import TOLERANCE, attention_for, difference, run
from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.attention.row_kernels import Written
from tlt_trainer.drafter.attention.rows import RowAttention
from tlt_trainer.drafter.attention.varlen import Varlen

LENGTHS = {"cuda": (17, 60, 300, 301, 750, 1500, 2048, 3000), "cpu": (17, 60, 130, 305)}
SHAPES = {"cuda": (28, 128), "cpu": (4, 32)}
"""Heads and head size, by device."""
REPEATS = 10


def main(path: Path) -> None:
    """Compare and time."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    layout, (heads, size) = PackLayout.of(LENGTHS[device.type], device), SHAPES[device.type]
    tensors = [torch.randn(heads, layout.tokens, size, device=device, dtype=torch.bfloat16) for _ in range(4)]
    chosen, written = attention_for(layout, tensors[0]), RowAttention(layout, Written())
    figures = {
        "variable_length": float(isinstance(chosen, Varlen)),
        "largest_difference": difference(run(chosen, *tensors), run(written, *(x.float() for x in tensors))),
        "written_ms": _milliseconds(written, tensors, device),
        "chosen_ms": _milliseconds(chosen, tensors, device),
    }
    figures["speedup"] = figures["written_ms"] / figures["chosen_ms"]
    path.write_text(json.dumps({"figures": figures}) + "\n")
    if not figures["largest_difference"] <= TOLERANCE:
        sys.exit(f"off by {figures['largest_difference']:.3f}")
    if device.type == "cuda" and not isinstance(chosen, Varlen):
        sys.exit("the GPU's variable-length attention is not used: the warning above says why")


def _milliseconds(attention: CausalAttention, tensors: list[Tensor], device: torch.device) -> float:
    grad, q, k, v = tensors

    def step() -> None:
        out, lse_NP = attention.forward(q, k, v, 0)
        attention.backward(grad, q, k, v, out.to(q.dtype), lse_NP, 0)

    seconds(device, step)
    return 1000 * median(seconds(device, step) for _ in range(REPEATS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
