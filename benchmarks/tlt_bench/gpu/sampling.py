"""
Both forms of sampling on this machine's device: `python -m tlt_bench.gpu.sampling FILE`.

Writes how many rows they cut differently, and how long the form with fixed shapes takes for a round of 64 requests and
chains of 7 with a vocabulary of 152,064 tokens (on a CPU: for one request and 8,192 tokens).
"""

import json
import sys
from pathlib import Path
from statistics import median

import torch

from tlt_bench.gpu.timing import seconds
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
    fixed = threshold.truncate(probs, cuts)
    took_s = median(seconds(probs.device, lambda: threshold.truncate(probs, cuts)) for _ in range(REPEATS))
    FORMS[device] = Form.FEW
    few = filters.truncate(probs, cuts)
    different = ((fixed > 0) != (few > 0)).any(-1).sum()
    figures = {
        "rows": len(probs),
        "rows_cut_differently": int(different),
        "largest_difference": float((fixed - few).abs().max()),
        "fixed_ms": 1000 * took_s,
    }
    path.write_text(json.dumps({"figures": figures}) + "\n")
    if different:
        sys.exit(f"{int(different)} of {len(probs)} rows are cut differently")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
