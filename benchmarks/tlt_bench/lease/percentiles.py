"""Percentiles of waits. Pure."""

from collections.abc import Sequence


def percentile(values: Sequence[float], share: int) -> float:
    """Return the smallest value that this many percent of all do not exceed."""
    return sorted(values)[max(0, -(-share * len(values) // 100) - 1)]
