"""`tlt bench train`."""

import torch

from tlt_bench.result import Result
from tlt_bench.train import packing, stall

REPEATS = 4


def measure(*, threads: int = 2) -> Result:
    """Run the benchmark and return its figures. Progress goes to stderr."""
    torch.set_num_threads(threads)
    found = packing.measure(repeats=REPEATS)
    found.merge(stall.measure(repeats=REPEATS))
    return found.result("train", repeats=REPEATS)
