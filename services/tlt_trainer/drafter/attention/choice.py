"""Selects the attention implementation for a device."""

import logging
from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor

from tlt_trainer.drafter.attention.causal import CausalAttention
from tlt_trainer.drafter.attention.layout import PackLayout
from tlt_trainer.drafter.attention.row_kernels import CpuFlash, Written
from tlt_trainer.drafter.attention.rows import RowAttention
from tlt_trainer.drafter.attention.varlen import GpuFlash, Varlen
from tlt_trainer.drafter.precision import widened

LARGEST_HEAD = 256
"""FlashAttention's limit; the head size is a multiple of 8."""
CHECKED = (1, 3, 40, 129)
"""Lengths of the samples by which a GPU's kernel is checked."""
TOLERANCE = 0.02
"""Largest difference between two ways to compute in bfloat16, relative to the largest value."""

logger = logging.getLogger(__name__)


def attention_for(layout: PackLayout, q_NPD: Tensor) -> CausalAttention:
    """Return the fastest attention that supports these queries."""
    if q_NPD.device.type == "cpu":
        return RowAttention(layout, CpuFlash())
    half = q_NPD.dtype in (torch.bfloat16, torch.float16)
    size = q_NPD.shape[-1]
    if half and size <= LARGEST_HEAD and size % 8 == 0 and computes(q_NPD.device, q_NPD.dtype, size):
        return Varlen(layout, GpuFlash())
    return RowAttention(layout, Written())


@cache
def computes(device: torch.device, dtype: torch.dtype, head_dim: int) -> bool:
    """
    Whether the device's variable-length attention matches the reference implementation. Checked once.

    The operators are private to torch, and a build or GPU may lack them; training then runs without them.
    """
    layout, generator = PackLayout.of(CHECKED, device), torch.Generator().manual_seed(0)
    shape = 2, layout.tokens, head_dim
    grad, q, k, v = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4))
    try:
        found = run(Varlen(layout, GpuFlash()), grad, q, k, v)
    except RuntimeError as error:
        logger.warning("no variable-length attention on %s, samples are padded instead: %s", device, error)
        return False
    expected = run(RowAttention(layout, Written()), *(widened(x) for x in (grad, q, k, v)))
    off = difference(found, expected)
    if not off <= TOLERANCE:
        logger.warning("variable-length attention on %s is off by %.3f, samples are padded instead", device, off)
    return off <= TOLERANCE


def run(attention: CausalAttention, grad: Tensor, q: Tensor, k: Tensor, v: Tensor) -> list[Tensor]:
    """Return output and gradients in float32, without lag and with a lag of 2."""
    found = list[Tensor]()
    for lag in (0, 2):
        out, lse_NP = attention.forward(q, k, v, lag)
        finite_NP = lse_NP.masked_fill(lse_NP.isinf(), 0)
        found += [out, *attention.backward(grad, q, k, v, out.to(q.dtype), finite_NP, lag)]
    return [widened(x) for x in found]


def difference(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    """Return the largest difference of any two tensors, relative to the largest expected value."""
    off = [(a - b).abs().max() / b.abs().max() for a, b in zip(found, expected, strict=True)]
    return float(torch.stack(off).max())  # NaN if any is
