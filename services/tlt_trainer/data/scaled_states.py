"""
8-bit states as engines encode them: float8 (e4m3) elements, then one float32 scale per state.

Shapes: N states, H elements of a state, B bytes of one: H + SCALE_BYTES.
"""

import torch
from torch import Tensor

from tlt_common.domain.hidden import SCALE_BYTES

FLOAT8_MAX = torch.finfo(torch.float8_e4m3fn).max


def unscaled(rows_NB: Tensor) -> Tensor:
    """Return the states (N, H) of encoded rows in bfloat16, on their device."""
    elements_NH = rows_NB[:, :-SCALE_BYTES].view(torch.float8_e4m3fn)
    return (elements_NH.float() * scales_of(rows_NB)).bfloat16()


def scales_of(rows_NB: Tensor) -> Tensor:
    """Return the scales (N, 1), float32."""
    return rows_NB[:, -SCALE_BYTES:].clone(memory_format=torch.contiguous_format).view(torch.float32)


def are_finite(rows_NB: Tensor) -> bool:
    """Return whether all states are finite. Intended for frames in host memory, since it waits for the result."""
    # Of the elements only the code of NaN, with either sign, is not finite.
    has_nan = ((rows_NB[:, :-SCALE_BYTES] & 0x7F) == 0x7F).any()
    return not bool(has_nan) and bool(torch.isfinite((scales_of(rows_NB) * FLOAT8_MAX).bfloat16()).all())
