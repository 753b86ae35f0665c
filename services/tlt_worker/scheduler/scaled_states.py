"""
States in 8 bits: float8 (e4m3) elements with one float32 scale per state, its largest magnitude over that of the type.

A float keeps 4 significant bits over five orders of magnitude, so that a few large elements do not round the others to
zero, as they would with integers. Runs on the states' device, before they are copied off it: half of bfloat16's bytes.

Shapes: C copied rows, H elements of a state.
"""

import torch
from torch import Tensor

from tlt_common.domain.hidden import SCALE_BYTES

SCALED_BITS = 8
"""Value of `CapturePolicy.state_bits` that asks for these."""
FLOAT8 = torch.float8_e4m3fn
FLOAT8_MAX = torch.finfo(FLOAT8).max
SMALLEST = 1e-30
"""Smallest scale, so that it is a normal number; larger in float16, in which its reciprocal has to be finite."""


def scaled_rows(states_CH: Tensor) -> Tensor:
    """
    Return [C, H + SCALE_BYTES] bytes: of each state its elements, then its scale. `states_CH` is overwritten.

    Does not wait for the device. A state with an element that is not finite gets such a scale, or elements; trainers
    refuse its frame.
    """
    rows, size = states_CH.shape
    # In place and without abs(): a copy of a long prompt's states would be hundreds of MiB.
    largest_C = torch.maximum(states_CH.amax(-1), states_CH.amin(-1).neg())
    smallest = max(SMALLEST, 2 / torch.finfo(states_CH.dtype).max)
    scales_C1 = (largest_C.float() / FLOAT8_MAX).clamp_min(smallest).unsqueeze(1)
    # The reciprocal may be rounded up in bfloat16; up to 464 becomes 448, the largest number.
    states_CH.mul_((1.0 / scales_C1).to(states_CH.dtype))
    rows_CB = torch.empty(rows, size + SCALE_BYTES, dtype=torch.uint8, device=states_CH.device)
    rows_CB[:, :size].view(FLOAT8).copy_(states_CH)
    rows_CB[:, size:].copy_(scales_C1.view(torch.uint8))
    return rows_CB
