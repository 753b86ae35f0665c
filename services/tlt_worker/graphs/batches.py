"""Batch sizes worth a graph of their own."""

from collections.abc import Callable, Sequence

from tlt_common.domain.strategy import Arm

Allows = Callable[[Arm, int], bool]
"""Whether an arm may run with so many requests."""

_EVERY = ((8, 1), (32, 2), (64, 4), (256, 8))
"""(up to, distance): a batch runs on the next larger graph, and a row too many costs most where batches are small."""
_BEYOND = 16


def batch_sizes(most: int) -> tuple[int, ...]:
    """Batch sizes up to `most`, itself included, spaced as SGLang 0.5.23 spaces them for speculation."""
    sizes, batch = [], 0
    while batch < most:
        batch += next((distance for upto, distance in _EVERY if batch < upto), _BEYOND)
        sizes.append(min(batch, most))
    return tuple(sizes)


def allowed_sizes(arm: Arm, most: int, allows: Allows) -> tuple[int, ...]:
    """Batch sizes to capture for an arm: those at which it may run, and the largest such batch itself."""
    allowed = [batch for batch in range(1, most + 1) if allows(arm, batch)]
    if not allowed:
        return ()
    sizes = {batch for batch in batch_sizes(most) if batch in set(allowed)}
    return tuple(sorted(sizes | {allowed[-1]}))


def reach(sizes: Sequence[int], batch: int) -> int | None:
    """Return the size a batch runs on: the smallest that is not below it; None where it runs without a graph."""
    return min((size for size in sizes if size >= batch), default=None)
