"""Uncertainty of the result: varies all numbers with intervals together."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tlt_simulator.costs.uncertainty import Range, drawn, range_of
from tlt_simulator.report.provenance import named_figures
from tlt_simulator.report.sample import Steps, said
from tlt_simulator.result import Comparison
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, outcomes
from tlt_simulator.trace import RunTrace

DRAWS = 32
"""Simulations of both sides."""


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
    figures = [(named.name, named.figure) for named in uncertain]
    todo = [Variant(name="base", scenario=scenario)]
    for number, values in enumerate(drawn(figures, draws, scenario.seed)):
        varied = scenario
        for named, value in zip(uncertain, values, strict=True):
            varied = set_figure(varied, named.name, value)
        todo.append(Variant(name=f"draw {number:04}", scenario=varied))
    found = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(todo, steps, processes=processes):
        found[variant.name] = outcome
        progress(len(found))
    base = found.pop("base")
    ones = list(found.values())
    return ResultInterval(
        draws=draws,
        steps=said(steps, trace),
        varied=dict(sorted(Counter(named.figure.source.value for named in uncertain).items())),
        speedup=range_of([comparison.speedup * one.speedup / base.speedup for one in ones]),
        rollout_speedup=range_of(
            [comparison.rollout_speedup * one.rollout_speedup / base.rollout_speedup for one in ones]
        ),
        seconds=range_of(
            [comparison.with_suite.seconds * one.with_suite.seconds / base.with_suite.seconds for one in ones]
        ),
    )
