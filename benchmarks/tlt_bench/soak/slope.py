"""Slopes of memory growth, with intervals. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

BLOCKS = 8
"""Parts of a course whose means are compared: samples next to each other are not independent."""
T_95 = 2.447
"""Student's t at 97.5 % with BLOCKS - 2 degrees of freedom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """Memory growth per unit of work, with its 95 % interval."""

    mib: float
    low: float
    high: float

    @property
    def is_noise(self) -> bool:
        """Whether the interval contains 0."""
        return self.low <= 0.0 <= self.high


def slope_of(course: Sequence[tuple[float, float]], *, per: float) -> Slope:
    """
    Return the slope by least squares over the means of blocks.

    Args:
        course: Work done and memory in MiB, in order, at least twice as many as blocks.
        per: Unit of work of the slope.
    """
    size = len(course) // BLOCKS
    blocks = [course[place * size : (place + 1) * size] for place in range(BLOCKS)]
    done = [fmean(work for work, _ in block) / per for block in blocks]
    memory = [fmean(mib for _, mib in block) for block in blocks]
    mean_done, mean_memory = fmean(done), fmean(memory)
    spread = sum((work - mean_done) ** 2 for work in done)
    slope = sum((work - mean_done) * (mib - mean_memory) for work, mib in zip(done, memory, strict=True)) / spread
    rest = sum((mib - mean_memory - slope * (work - mean_done)) ** 2 for work, mib in zip(done, memory, strict=True))
    error = T_95 * sqrt(rest / (BLOCKS - 2) / spread)
    return Slope(mib=slope, low=slope - error, high=slope + error)
