"""Percentiles of waits. Pure."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: int) -> float:
    """Return the value that this many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, share * len(ordered) // 100)]
