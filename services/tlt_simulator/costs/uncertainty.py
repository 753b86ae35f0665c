"""Values drawn from the intervals of many numbers together, and intervals of what follows from them. Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist, fmean, pstdev

from tlt_simulator.costs.figure import CostFigure

_LEVEL = 0.9
"""Level of the intervals of figures and results."""
_END = NormalDist().inv_cdf((1.0 + _LEVEL) / 2.0)
_PROBABILITIES = frozenset(
    {
        "accept_start", "accept_public", "accept_best", "accept_decay", "ngram_accept", "ngram_alone_accept",
        "ngram_next_accept", "ageing",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A 90 % interval around a median."""

    low: float
    middle: float
    high: float


def drawn(figures: Sequence[tuple[str, CostFigure]], draws: int, seed: int) -> Iterator[tuple[float, ...]]:
    """Yield values of all figures, independently drawn from their intervals."""
    yield from hypercube([_quantile(name, figure) for name, figure in figures], draws, seed)


def hypercube(quantiles: Sequence[Callable[[float], float]], draws: int, seed: int) -> Iterator[tuple[float, ...]]:
    """Yield draws (McKay et al. 1979). Those of each number fall into `draws` parts of equal probability, one each."""
    rng = Random(seed)
    columns = []
    for quantile in quantiles:
        places = list(range(draws))
        rng.shuffle(places)
        columns.append([quantile((place + rng.random()) / draws) for place in places])
    yield from zip(*columns, strict=True)


def range_of(values: Sequence[float]) -> Range:
    """Return the 90 % interval and median of draws."""
    ordered = sorted(values)
    low, middle, high = (_between(ordered, share) for share in ((1 - _LEVEL) / 2, 0.5, (1 + _LEVEL) / 2))
    return Range(low=low, middle=middle, high=high)


def scaled_range(value: float, draws: Sequence[float], *, unvaried: Sequence[float]) -> Range:
    """
    Return the interval of a result of a whole run, from those of draws and of unvaried simulations on its sample.

    It is at least as wide as the noise of the unvaried ones on both sides, so that it contains the result.
    """
    middle = fmean(unvaried)
    found, noise = range_of([value * one / middle for one in draws]), value * _END * pstdev(unvaried) / middle
    return Range(low=min(found.low, value - noise), middle=found.middle, high=max(found.high, value + noise))


def _between(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    first = int(place)
    last = min(first + 1, len(ordered) - 1)
    return ordered[first] + (place - first) * (ordered[last] - ordered[first])


def _quantile(name: str, figure: CostFigure) -> Callable[[float], float]:
    """
    Return a quantile of a split normal distribution: its two halves have the widths of the interval's sides.

    The lower half of a positive interval is that of a log-normal distribution. With an interval of 150,000 to
    10,000,000 around 700,000, a normal one would be below 0 in 2 % of all draws.
    """
    most = 1.0 if name.rpartition(".")[2] in _PROBABILITIES else float("inf")

    def at(share: float) -> float:
        deviations = NormalDist().inv_cdf(min(max(share, 1e-9), 1 - 1e-9)) / _END
        if deviations >= 0:
            return min(most, figure.value + deviations * (figure.most - figure.value))
        if figure.least > 0:
            return float(figure.value * (figure.least / figure.value) ** -deviations)
        return max(0.0, figure.value + deviations * (figure.value - figure.least))

    return at
