"""Uncertainty of the result: varies all numbers with intervals together."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tlt_simulator.costs.uncertainty import Range, drawn, scaled_range
from tlt_simulator.report.provenance import named_figures
from tlt_simulator.report.sample import Steps, said
from tlt_simulator.result import Comparison
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.keys import set_figure
from tlt_simulator.sweep.outcomes import SweepOutcome, Variant, outcomes
from tlt_simulator.trace import RunTrace

DRAWS = 32
"""Simulations of both sides."""
REPEATS, NUDGE = 4, 1e-3
"""
Unvaried simulations on the same steps, with prefills longer by this share each. Where KV caches are full, so little
decides which requests meet on a worker, and speedups on two steps differ by 5 %.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultInterval:
    """The interval of the result."""

    draws: int
    steps: str
    """Description of the simulated steps."""
    varied: dict[str, int]
    """Number of varied numbers, by source."""
    speedup: Range
    """Speedup of the whole run, scaled by the ratio of each draw to unvaried simulations on the same steps."""
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
    todo = [Variant(name=f"base {number}", scenario=_repeated(scenario, number)) for number in range(REPEATS)]
    for number, values in enumerate(drawn(figures, draws, scenario.seed)):
        varied = scenario
        for named, value in zip(uncertain, values, strict=True):
            varied = set_figure(varied, named.name, value)
        todo.append(Variant(name=f"draw {number:04}", scenario=varied))
    found = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(todo, steps, processes=processes):
        found[variant.name] = outcome
        progress(len(found))
    bases = [found.pop(f"base {number}") for number in range(REPEATS)]
    ones = list(found.values())

    def scaled(value: float, of: Callable[[SweepOutcome], float]) -> Range:
        return scaled_range(value, [of(one) for one in ones], unvaried=[of(base) for base in bases])

    return ResultInterval(
        draws=draws,
        steps=said(steps, trace),
        varied=dict(sorted(Counter(named.figure.source.value for named in uncertain).items())),
        speedup=scaled(comparison.speedup, lambda one: one.speedup),
        rollout_speedup=scaled(comparison.rollout_speedup, lambda one: one.rollout_speedup),
        seconds=scaled(comparison.with_suite.seconds, lambda one: one.with_suite.seconds),
    )


def _repeated(scenario: Scenario, number: int) -> Scenario:
    """Return the scenario, but for a change that matters only by which requests meet on a worker."""
    value = scenario.costs.prefill_token_s.value
    return set_figure(scenario, "costs.prefill_token_s", value * (1.0 + NUDGE * number))
