"""Selects the type in which a device multiplies matrices fastest."""

import torch
from torch import Tensor

from tlt_common.machine import multiplies_bfloat16


def compute_dtype(device: torch.device) -> torch.dtype:
    """
    Return bfloat16 if the device multiplies it natively, otherwise float32.

    Others emulate bfloat16: on a CPU with AVX2 alone, a micro-step then takes 8 to 20 times as long.
    """
    gpu = device.type == "cuda"
    native = torch.cuda.is_bf16_supported(including_emulation=False) if gpu else multiplies_bfloat16()
    return torch.bfloat16 if native else torch.float32


def widened(x: Tensor) -> Tensor:
    """Return a tensor in float32, or in float64 if it has that type."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
