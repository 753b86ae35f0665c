"""Percentiles of waits. Pure."""

from collections.abc import Sequence

from tlt_bench.ratios import Figures

SHARES = (50, 99)


def percentile(values: Sequence[float], share: int) -> float:
    """Return the smallest value that at least this percentage of all values does not exceed."""
    return sorted(values)[max(0, -(-share * len(values) // 100) - 1)]


def add_percentiles(found: Figures, name: str, values: Sequence[float]) -> None:
    """Add the percentiles of one wait. The spread of each is the range of all values."""
    for share in SHARES:
        key = f"{name}_p{share}"
        found.figures[key], found.spread[key] = percentile(values, share), (min(values), max(values))
