"""Uncertainty of the result: varies all numbers with intervals together."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from tlt_simulator.report.provenance import NamedFigure, named_figures
from tlt_simulator.report.sample import Steps, said
from tlt_simulator.result import Comparison
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, outcomes
from tlt_simulator.trace import RunTrace

DRAWS = 32
"""Simulations of both sides."""
_LEVEL = 0.9
"""Level of the intervals of figures and result."""
_END = NormalDist().inv_cdf((1.0 + _LEVEL) / 2.0)
_PROBABILITIES = frozenset({"accept_start", "accept_best", "accept_decay", "ngram_accept", "ageing"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A 90 % interval around a median."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInterval:
    """The interval of the result."""

    draws: int
    steps: str
    """Description of the simulated steps."""
    varied: dict[str, int]
    """Number of varied numbers, by source."""
    speedup: Range
    """Speedup of the whole run, scaled by the ratio of each draw to the unvaried simulation on the same steps."""
    rollout_speedup: Range
    seconds: Range
    """Duration of the whole run with the suite, scaled likewise."""


def interval(
    comparison: Comparison,
    trace: RunTrace,
    steps: Steps,
    *,
    processes: int,
    draws: int = DRAWS,
    progress: Callable[[int], None] = lambda _: None,
) -> ResultInterval | None:
    """
    Simulate with values drawn from all intervals independently (Latin hypercube; McKay et al. 1979).

    Args:
        comparison: The whole unvaried run, whose scenario's seed determines the draws.
        trace: The whole run.
        steps: Its steps on which variants are simulated.
        processes: Number of concurrent simulations.
        draws: Number of draws.
        progress: Called with the number of finished simulations.

    Returns:
        The interval, or None if no number has one.
    """
    scenario = comparison.scenario
    uncertain = [named for named in named_figures(scenario) if named.has_interval]
    if not uncertain:
        return None
    todo = [Variant(name="base", scenario=scenario)]
    for number, values in enumerate(hypercube([_quantile(named) for named in uncertain], draws, scenario.seed)):
        varied = scenario
        for named, value in zip(uncertain, values, strict=True):
            varied = set_figure(varied, named.name, value)
        todo.append(Variant(name=f"draw {number:04}", scenario=varied))
    found = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(todo, steps, processes=processes):
        found[variant.name] = outcome
        progress(len(found))
    base = found.pop("base")
    drawn = list(found.values())
    return ResultInterval(
        draws=draws,
        steps=said(steps, trace),
        varied=dict(sorted(Counter(named.figure.source.value for named in uncertain).items())),
        speedup=range_of([comparison.speedup * one.speedup / base.speedup for one in drawn]),
        rollout_speedup=range_of(
            [comparison.rollout_speedup * one.rollout_speedup / base.rollout_speedup for one in drawn]
        ),
        seconds=range_of(
            [comparison.with_suite.seconds * one.with_suite.seconds / base.with_suite.seconds for one in drawn]
        ),
    )


def hypercube(quantiles: Sequence[Callable[[float], float]], draws: int, seed: int) -> Iterator[tuple[float, ...]]:
    """Yield draws. The draws of each number fall into `draws` parts of equal probability, one each."""
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


def _between(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    first = int(place)
    last = min(first + 1, len(ordered) - 1)
    return ordered[first] + (place - first) * (ordered[last] - ordered[first])


def _quantile(named: NamedFigure) -> Callable[[float], float]:
    """Return a quantile of a split normal distribution: its two halves have the widths of the interval's sides."""
    figure = named.figure
    most = 1.0 if named.name.rpartition(".")[2] in _PROBABILITIES else float("inf")

    def at(share: float) -> float:
        deviations = NormalDist().inv_cdf(min(max(share, 1e-9), 1 - 1e-9)) / _END
        side = figure.value - figure.least if deviations < 0 else figure.most - figure.value
        return min(most, max(0.0, figure.value + deviations * side))

    return at
