"""Statistics of repeats, and ratios of alternately measured sides with their uncertainty. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import median

from tlt_bench.result import Result


@dataclass(slots=True)
class Figures:
    """Figures of a benchmark by name, each a median over repeats with its minimum and maximum."""

    figures: dict[str, float] = field(default_factory=dict)
    spread: dict[str, tuple[float, float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, values: Sequence[float], note: str = "") -> float:
        """Add the repeats of one figure; return their median."""
        self.figures[name] = median(values)
        self.spread[name] = (min(values), max(values))
        if note:
            self.notes[name] = note
        return self.figures[name]

    def merge(self, other: "Figures") -> None:
        """Add figures with other names."""
        self.figures |= other.figures
        self.spread |= other.spread
        self.notes |= other.notes

    def result(self, name: str, *, repeats: int) -> Result:
        """Return the figures as the result of a benchmark."""
        return Result(name=name, figures=self.figures, spread=self.spread, repeats=repeats, notes=self.notes)


def over(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return the ratio of each repeat. Both values were measured close together in time, so noise affects both."""
    return [upper / lower for upper, lower in zip(above, below, strict=True)]


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """
    Return a distribution-free confidence interval of the median: two of the sorted values.

    With fewer than 6 values no pair reaches 95 %; the interval is then minimum and maximum.
    """
    ordered, count = sorted(values), len(values)
    low = 0
    while low + 1 < count / 2 and _coverage(count, low + 1) >= level:
        low += 1
    return ordered[low], ordered[count - 1 - low]


def _coverage(count: int, low: int) -> float:
    """Return the probability that the median lies between the sorted values at `low` and `count - 1 - low`."""
    return 1.0 - 2.0 * sum(comb(count, k) for k in range(low + 1)) / 2.0**count


def overlap(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Return whether two intervals overlap."""
    return first[0] <= second[1] and second[0] <= first[1]


def best(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the name with the highest median."""
    return max(rates, key=lambda name: median(rates[name]))


def worst(rates: Mapping[str, Sequence[float]]) -> str:
    """Return the name with the lowest median."""
    return min(rates, key=lambda name: median(rates[name]))
