"""`tlt bench train`. Imports no torch before it runs, so that --help stays fast."""

from tlt_bench.options import Json

REPEATS = 4
THREADS = 2


def train(json: Json = "-") -> None:
    """
    Measure packs of windows against padded batches, and a trainer's snapshots against blocking saves. Takes 5 minutes.

    Packs and batches contain the same windows. Reports samples per second and the resulting accept lengths.
    """
    import torch

    from tlt_bench.train import packing, stall

    torch.set_num_threads(THREADS)
    found = packing.measure(repeats=REPEATS)
    found.merge(stall.measure(repeats=REPEATS))
    found.result("train", repeats=REPEATS).write(json)
