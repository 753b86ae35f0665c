"""
Results of a sweep: one row per combination, over its seeds. Pure.

Settings are compared by paired differences between runs with the same seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import fmean, stdev

from tlt_simulator.sweep.outcomes import SweepOutcome

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


class Mark(StrEnum):
    """Comparison of a row with the fastest one."""

    BEST = "best"
    """Faster than every other row, beyond noise."""
    AS_GOOD = "as good as the best"
    """The fastest row, or one that noise does not distinguish from it."""
    NONE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRow:
    """A combination of values. Means are over seeds."""

    changes: Mapping[str, str]
    outcomes: tuple[SweepOutcome, ...]
    """One per seed."""
    mark: Mark = Mark.NONE

    @property
    def durations_s(self) -> tuple[float, ...]:
        """Duration of the run with the suite, by seed."""
        return tuple(outcome.with_suite.seconds for outcome in self.outcomes)

    @property
    def seconds(self) -> float:
        """Mean duration of the run with the suite."""
        return fmean(self.durations_s)

    @property
    def speedup(self) -> float:
        """Mean duration without the suite ÷ with it."""
        return fmean(outcome.without.seconds for outcome in self.outcomes) / self.seconds

    @property
    def speedup_spread(self) -> float:
        """Standard deviation of the speedup between seeds."""
        return spread([outcome.speedup for outcome in self.outcomes])

    def mean(self, name: str) -> float:
        """Return the mean of a number of the side with the suite."""
        return fmean(float(getattr(outcome.with_suite, name)) for outcome in self.outcomes)


def rows_of(found: Sequence[tuple[Mapping[str, str], Sequence[SweepOutcome]]]) -> tuple[SweepRow, ...]:
    """Return rows in the given order, marking the best one only if it is better beyond noise."""
    rows = [SweepRow(changes=changes, outcomes=tuple(outcomes)) for changes, outcomes in found]
    if len(rows) < 2:
        return tuple(rows)
    best = min(rows, key=lambda row: row.seconds)
    others = [row for row in rows if row is not best]
    equals = [row for row in others if not is_shorter(best.durations_s, row.durations_s)]
    if not equals:
        return tuple(_marked(row, Mark.BEST) if row is best else row for row in rows)
    as_good = [best, *equals]
    return tuple(_marked(row, Mark.AS_GOOD) if any(row is one for one in as_good) else row for row in rows)


def _marked(row: SweepRow, mark: Mark) -> SweepRow:
    return SweepRow(changes=row.changes, outcomes=row.outcomes, mark=mark)
