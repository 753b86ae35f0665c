"""Compares settings by paired differences between runs with the same seeds. Pure."""

from collections.abc import Sequence
from math import sqrt
from statistics import fmean, stdev

FLOOR = 0.002
"""Gains below this share are taken for none, however often they are seen: no model of costs is that exact."""
_T99 = (31.82, 6.96, 4.54, 3.75, 3.36, 3.14, 3.00, 2.90, 2.82, 2.76)
"""Student's t, one-sided, 99 %, by degrees of freedom from 1; strict, since the best of many is asked for."""


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation between seeds; 0 for a single one."""
    return stdev(values) if len(values) > 1 else 0.0


def is_shorter(one_s: Sequence[float], other_s: Sequence[float]) -> bool:
    """
    Return whether runs are shorter than others beyond the noise between seeds.

    Args:
        one_s: Durations, one per seed.
        other_s: Durations of the others with the same seeds, in the same order. With a single seed, the answer is
            always False.
    """
    if len(one_s) < 2:
        return False
    gains = [(other - one) / other for one, other in zip(one_s, other_s, strict=True)]
    t = _T99[min(len(gains) - 2, len(_T99) - 1)]
    return fmean(gains) > FLOOR and fmean(gains) > t * stdev(gains) / sqrt(len(gains))
