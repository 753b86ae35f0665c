"""How sure the result is: everything that has an interval varies together."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import NormalDist

from tlt_simulator.report.provenance import NamedFigure, named_figures
from tlt_simulator.report.sample import said
from tlt_simulator.report.variations import Steps
from tlt_simulator.result import Comparison
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcome import SweepOutcome, Variant
from tlt_simulator.sweep.outcomes import outcomes
from tlt_simulator.trace import RunTrace

DRAWS = 32
"""Simulations of both sides."""
_LEVEL = 0.9
"""Of figures' intervals, and of the result's."""
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
    """On which it was simulated, for people."""
    varied: dict[str, int]
    """How many numbers varied, by source."""
    speedup: Range
    """Of the whole run: its speedup times that of each draw ÷ that with nothing varied, on the same steps."""
    rollout_speedup: Range
    seconds: Range
    """Duration of the whole run with the suite, likewise."""


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
    Simulate with values drawn from all intervals, independently of each other (Latin hypercube; McKay et al. 1979).

    Args:
        comparison: The whole run, with nothing varied; the seed of its scenario gives the draws.
        trace: The whole run.
        steps: Those of it on which variants are simulated.
        processes: How many simulations run at a time.
        draws: How many.
        progress: Told how many are there.

    Returns:
        None if no number has an interval.
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
    """Yield draws; of each number, one falls into each of `draws` parts of equal probability."""
    rng = Random(seed)
    columns = []
    for quantile in quantiles:
        places = list(range(draws))
        rng.shuffle(places)
        columns.append([quantile((place + rng.random()) / draws) for place in places])
    yield from zip(*columns, strict=True)


def range_of(values: Sequence[float]) -> Range:
    """Return the 90 % interval of draws, and their median."""
    ordered = sorted(values)
    low, middle, high = (_between(ordered, share) for share in ((1 - _LEVEL) / 2, 0.5, (1 + _LEVEL) / 2))
    return Range(low=low, middle=middle, high=high)


def _between(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    first = int(place)
    last = min(first + 1, len(ordered) - 1)
    return ordered[first] + (place - first) * (ordered[last] - ordered[first])


def _quantile(named: NamedFigure) -> Callable[[float], float]:
    """Half of a normal distribution below the value and half above it, each as wide as its side of the interval."""
    figure = named.figure
    most = 1.0 if named.name.rpartition(".")[2] in _PROBABILITIES else float("inf")

    def at(share: float) -> float:
        deviations = NormalDist().inv_cdf(min(max(share, 1e-9), 1 - 1e-9)) / _END
        side = figure.value - figure.least if deviations < 0 else figure.most - figure.value
        return min(most, max(0.0, figure.value + deviations * side))

    return at
