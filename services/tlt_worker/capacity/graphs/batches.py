"""Batch sizes at which graphs are captured."""

from collections.abc import Callable, Sequence

from tlt_common.domain.arm import Arm

Allows = Callable[[Arm, int], bool]
"""Whether an arm may run with this many requests."""

_EVERY = ((8, 1), (32, 2), (64, 4), (256, 8))
"""(up to, distance): a batch runs on the next larger graph, and a padding row costs most where batches are small."""
_BEYOND = 16


def batch_sizes(max_batch: int) -> tuple[int, ...]:
    """Return batch sizes up to and including `max_batch`, spaced as in SGLang 0.5.23 for speculation."""
    sizes, batch = [], 0
    while batch < max_batch:
        batch += next((distance for upto, distance in _EVERY if batch < upto), _BEYOND)
        sizes.append(min(batch, max_batch))
    return tuple(sizes)


def allowed_sizes(arm: Arm, max_batch: int, allows: Allows) -> tuple[int, ...]:
    """Return the batch sizes to capture for an arm: those at which it may run, including the largest."""
    allowed = [batch for batch in range(1, max_batch + 1) if allows(arm, batch)]
    if not allowed:
        return ()
    sizes = {batch for batch in batch_sizes(max_batch) if batch in set(allowed)}
    return tuple(sorted(sizes | {allowed[-1]}))


def reach(sizes: Sequence[int], batch: int) -> int | None:
    """Return the smallest captured size that holds a batch, or None if the batch runs without a graph."""
    return min((size for size in sizes if size >= batch), default=None)
