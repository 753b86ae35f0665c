"""
Both forms of sampling on this machine's device: `python -m tlt_bench.gpu.sampling FILE`.

Writes how many rows they cut differently, and how long the form with fixed shapes takes for a round of 64 requests and
chains of 7 with a vocabulary of 152,064 tokens (on a CPU: for one request and 8,192 tokens).
"""

import json
import sys
import time
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from tlt_worker.scheduler.sampling import filters, threshold
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.forms import FORMS, Form

SHAPES = {"cuda": (64 * 8, 152_064), "cpu": (8, 8192)}
"""Rows and tokens, by device."""
REPEATS = 10


def main(path: Path) -> None:
    """Compare and time."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    probs = (torch.randn(SHAPES[device], device=device) * 3).softmax(-1)
    cuts = Cuts(
        top_ks=torch.randint(1, 2000, (len(probs),), device=device),
        top_ps=torch.rand(len(probs), device=device).mul_(0.5).add_(0.5),
        min_ps=torch.rand(len(probs), device=device).mul_(0.01),
    )
    fixed, seconds = threshold.truncate(probs, cuts), _seconds(probs, cuts, device)
    FORMS[device] = Form.FEW
    few = filters.truncate(probs, cuts)
    different = ((fixed > 0) != (few > 0)).any(-1).sum()
    figures = {
        "rows": len(probs),
        "rows_cut_differently": int(different),
        "largest_difference": float((fixed - few).abs().max()),
        "fixed_ms": 1000 * seconds,
    }
    path.write_text(json.dumps({"figures": figures}) + "\n")
    if different:
        sys.exit(f"{int(different)} of {len(probs)} rows are cut differently")


def _seconds(probs: Tensor, cuts: Cuts, device: str) -> float:
    times = []
    for _ in range(REPEATS):
        began_s = time.perf_counter()
        threshold.truncate(probs, cuts)
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began_s)
    return median(times)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
