"""Time of work on a device."""

import time
from collections.abc import Callable

import torch


def seconds(device: torch.device, call: Callable[[], object]) -> float:
    """Call, wait for the device, and return how long both took."""
    began_s = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began_s
