"""In what type a device multiplies matrices fastest."""

import torch


def compute_dtype(device: torch.device) -> torch.dtype:
    """
    Return bfloat16 if the device multiplies it natively, otherwise float32.

    Others emulate bfloat16: on a CPU with AVX2 alone, a micro-step then takes 8 to 20 times as long.
    """
    if device.type == "cuda":
        native = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        native = torch.cpu._is_avx512_bf16_supported()  # noqa: SLF001 - what lacks it lacks AMX, too
    return torch.bfloat16 if native else torch.float32
