"""Compares the Triton kernel with the torch form, and prints how many cases there were and which differ."""

import itertools
import json
import sys

import torch

from tlt_worker.scheduler.sampling import threshold, threshold_kernel

SIZES = (1, 16, 35)
MASSES = (0.0, 0.9, float("inf"))
MOST = (1, 7, 60)


def rows_of(size: int) -> torch.Tensor:
    """Return rows with and without ties, one of zeros, and one with a certain token."""
    scores = torch.randn(2, size, generator=torch.Generator().manual_seed(size)) * 3
    scores[1] = scores[1].round()
    certain = torch.zeros(2, size)
    certain[1, -1] = 1.0
    return torch.cat([scores.softmax(-1), certain])


def main() -> None:
    """Run all cases."""
    threshold_kernel.BLOCK = 16
    count, different = 0, []
    for size, mass, most in itertools.product(SIZES, MASSES, MOST):
        rows = rows_of(size)
        most_M1 = torch.full((len(rows), 1), most, dtype=torch.int32)
        mass_M1 = torch.full((len(rows), 1), mass, dtype=torch.float64)
        found = threshold_kernel.threshold(rows, most_M1, mass_M1)
        if not torch.equal(found, threshold._threshold(rows, most_M1, mass_M1)):
            different.append([size, mass, most])
        count += 1
    sys.stdout.write(json.dumps({"cases": count, "different": different}))


if __name__ == "__main__":
    main()
