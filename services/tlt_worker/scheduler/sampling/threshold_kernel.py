"""
The bisection of `threshold` as one Triton kernel, for GPUs. Imported there only, and by its test.

In torch every step of the bisection is ten kernels over all rows; for few rows, launching them takes
longer than running them. Here a program finds one row's threshold: it reads the row 31 times, from the GPU's L2 cache
after the first time. Compiled for GPUs by its test, not run on one yet.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit  # type: ignore[untyped-decorator] # Triton is untyped
def _bisect(probs, most, mass, low_of, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Triton reads annotations
    row = tl.program_id(0).to(tl.int64)
    first = probs + row * size
    most_kept = tl.load(most + row)
    mass_kept = tl.load(mass + row)
    low = tl.full([], 0, tl.int32)
    for step in range(31):
        tried = low | (1 << (30 - step))
        bound = tried.to(tl.float32, bitcast=True)
        count = tl.zeros([BLOCK], tl.int32)
        total = tl.zeros([BLOCK], tl.float64)
        for start in range(0, size, BLOCK):
            at = start + tl.arange(0, BLOCK)
            value = tl.load(first + at, mask=at < size, other=0.0)
            is_above = value > bound
            count += is_above.to(tl.int32)
            total += tl.where(is_above, value, 0.0).to(tl.float64)
        is_kept = (tl.sum(count, 0) < most_kept) & (tl.sum(total, 0) <= mass_kept)
        low = tl.where(is_kept, low, tried)
    tl.store(low_of + row, low + 1)


def threshold(probs_MV: Tensor, most_M1: Tensor, mass_M1: Tensor) -> Tensor:
    """Return the smallest value [M, 1] of which a token would be kept; see `threshold._threshold`."""
    rows, size = probs_MV.shape
    most, mass = most_M1.to(torch.int32).contiguous(), mass_M1.to(torch.float64).contiguous()
    low_M1 = torch.empty(rows, 1, dtype=torch.int32, device=probs_MV.device)
    _bisect[(rows,)](probs_MV.contiguous(), most, mass, low_M1, size, BLOCK=BLOCK, num_warps=8)
    return low_M1.view(torch.float32)
