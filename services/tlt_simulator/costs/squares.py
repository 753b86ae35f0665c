"""Weighted least squares with nonnegative coefficients, from sums that can be resampled. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

SWEEPS = 400
"""Of the descent, coordinate by coordinate, at most."""
SETTLED = 1e-9
"""Share of a coefficient by which a sweep changes it when it is found."""
RIDGE = 1e-6
"""Share of a column's square by which its coefficient is drawn to 0: columns that cannot be told apart share."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Sums over observations: products of columns, products of columns and target, and the squared target."""

    columns: tuple[tuple[float, ...], ...]
    target: tuple[float, ...]
    square: float

    @classmethod
    def of(cls, row: Sequence[float], target: float, weight: float) -> "Moments":
        """Return the sums of one observation."""
        return cls(
            columns=tuple(tuple(weight * one * other for other in row) for one in row),
            target=tuple(weight * one * target for one in row),
            square=weight * target * target,
        )


def added(moments: Iterable[Moments]) -> Moments:
    """Return the combined sums of several."""
    many = list(moments)
    size = range(len(many[0].target))
    return Moments(
        columns=tuple(tuple(sum(one.columns[i][j] for one in many) for j in size) for i in size),
        target=tuple(sum(one.target[i] for one in many) for i in size),
        square=sum(one.square for one in many),
    )


def solved(moments: Moments) -> tuple[tuple[float, ...], float]:
    """Return the coefficients and the weighted sum of squared errors."""
    columns, target = moments.columns, moments.target
    size = range(len(target))
    found = [0.0] * len(target)
    for _ in range(SWEEPS):
        moved = False
        for i in size:
            if columns[i][i] > 0.0:
                row, before = columns[i], found[i]
                rest = target[i] - sum(map(mul, row, found)) + row[i] * before
                found[i] = max(0.0, rest / (row[i] * (1.0 + RIDGE)))
                moved = moved or abs(found[i] - before) > SETTLED * before
        if not moved:
            break
    error = moments.square - 2.0 * sum(target[i] * found[i] for i in size)
    error += sum(columns[i][j] * found[i] * found[j] for i in size for j in size)
    return tuple(found), max(0.0, error)
