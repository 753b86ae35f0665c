"""Compares the Triton kernels with the torch forms, and prints how many cases there were and which differ."""

import itertools
import json
import runpy
import sys

import torch
from torch import Tensor

from tlt_worker.engine.device import STANDIN_PATH
from tlt_worker.scheduler.sampling import kernels, threshold
from tlt_worker.scheduler.sampling.cuts import Cuts
from tlt_worker.scheduler.sampling.draw import UNSEEDED, draw
from tlt_worker.scheduler.sampling.noise import exponentials

murmur_hash32_cpu = runpy.run_path(str(STANDIN_PATH / "sgl_kernel" / "hashing.py"))["murmur_hash32_cpu"]

SIZES = (1, 16, 35)
TOP_PS = (1e-6, 0.9, 1.0)
TOP_KS = (7, 60)
MIN_PS = (0.0, 0.2)
DTYPES = (torch.int64, torch.int32)


def rows_of(size: int) -> Tensor:
    """Return rows with and without ties, one of zeros, one with a certain token, ones that are not distributions."""
    scores = torch.randn(4, size, generator=torch.Generator().manual_seed(size)) * 3
    scores[1] = scores[1].round()
    rows = torch.cat([scores.softmax(-1), torch.zeros(2, size)])
    rows[2] *= 1e-9  # what is left of p - q
    rows[3] *= 1e4
    rows[5, -1] = 1.0
    return rows


def filters(rows: Tensor, top_k: int, top_p: float, min_p: float) -> bool:
    size = (len(rows),)
    chosen = Cuts(
        top_ks=torch.full(size, top_k, dtype=torch.int32),
        top_ps=torch.full(size, top_p),
        min_ps=torch.full(size, min_p),
    )
    found = kernels.truncate(rows, chosen)
    return torch.equal(found.nan_to_num(-1), threshold.truncate(rows, chosen).nan_to_num(-1))


def draws(rows: Tensor) -> bool:
    coins = torch.rand(64, generator=torch.Generator().manual_seed(3))
    coins[:3] = torch.tensor([0.0, 1 - 2.0**-24, 1.0])
    every = rows.repeat_interleave(len(coins), 0)
    return torch.equal(kernels.draw(every, coins.repeat(len(rows))), draw(every, coins.repeat(len(rows))))


def seeds(rows: Tensor, dtype: torch.dtype) -> bool:
    chosen = torch.tensor([0, 7, UNSEEDED, 2**40 + 3, 2**62, 9])
    positions = torch.tensor([0, 1, 2, 3, 2**20, 5], dtype=dtype)
    tokens = torch.arange(6)
    hashed = murmur_hash32_cpu(chosen, positions, torch.arange(rows.shape[1])).to(torch.int64)
    drawn = (rows / exponentials(hashed)).argmax(-1)
    return torch.equal(kernels.reseed(tokens, rows, chosen, positions), torch.where(chosen == UNSEEDED, tokens, drawn))


def main() -> None:
    """Run all cases."""
    kernels.BLOCK = 16
    done = dict[tuple[object, ...], bool]()
    for size in SIZES:
        rows = rows_of(size)
        for top_k, top_p, min_p in itertools.product(TOP_KS, TOP_PS, MIN_PS):
            done["filters", size, top_k, top_p, min_p] = filters(rows, top_k, top_p, min_p)
        done["draws", size] = draws(rows)
        for dtype in DTYPES:
            done["seeds", size, str(dtype)] = seeds(rows, dtype)
    different = [case for case, is_equal in done.items() if not is_equal]
    sys.stdout.write(json.dumps({"cases": len(done), "different": different}))


if __name__ == "__main__":
    main()
