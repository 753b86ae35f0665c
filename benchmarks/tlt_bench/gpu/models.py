"""
Writes the models of all parts: `python -m tlt_bench.gpu.models FILE DIRECTORY`.

Full size on a GPU, reduced elsewhere. The mixture of experts has as many layers as fit on the disk.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Final

import torch

from tlt_bench.random_models import is_written, write, write_missing
from tlt_bench.shapes import MODEL, SHAPES

SPARE_BYTES: Final = 8 * 2**30
"""Disk that other parts need for checkpoints and logs."""
WHOLE: Final = ("0.5b", "7b")
EXPERTS: Final = "30b-a3b"
LAYER_BYTES: Final = 1.3 * 2**30
"""Of the mixture of experts: 128 experts of 3 matrices of 2,048 x 768, in bfloat16, and attention."""


def main(path: Path, directory: Path) -> None:
    """Write missing models, and report their sizes."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    figures = {f"gib_{name}": gib for name, gib in write_missing(directory, WHOLE, device=device).items()}
    if device == "cpu":
        figures |= {f"gib_{name}": gib for name, gib in write_missing(directory, [EXPERTS], device=device).items()}
    else:
        figures["layers_30b-a3b"] = _write_experts(directory)
    path.write_text(json.dumps({"figures": figures}) + "\n")


def _write_experts(directory: Path) -> int:
    """Write the mixture of experts with as many layers as fit on the disk; return their number."""
    target = directory / EXPERTS
    if is_written(target):
        layers: int = json.loads((target / MODEL / "config.json").read_text())["num_hidden_layers"]
        return layers
    shutil.rmtree(target, ignore_errors=True)
    room = shutil.disk_usage(directory).free - SPARE_BYTES
    layers = min(SHAPES[EXPERTS]["num_hidden_layers"], int(room / LAYER_BYTES))
    if layers < SHAPES[EXPERTS]["num_hidden_layers"] // 4:
        sys.exit(f"{directory} has room for {layers} layers of {EXPERTS}; use --models with a larger disk")
    write(target, {**SHAPES[EXPERTS], "num_hidden_layers": layers}, device="cuda")
    return layers


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
