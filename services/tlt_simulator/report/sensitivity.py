"""Sensitivity of the result to each number, varied one at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from tlt_simulator.report.sample import said
from tlt_simulator.report.variations import Steps, Variation, variations
from tlt_simulator.scenario import Scenario
from tlt_simulator.sweep.outcome import SweepOutcome, Variant
from tlt_simulator.sweep.outcomes import outcomes
from tlt_simulator.trace import RunTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Swing:
    """Effect of one number on the result."""

    name: str
    what: str
    low: str
    """Description of its lower end."""
    high: str
    at_low: SweepOutcome
    at_high: SweepOutcome

    @property
    def width(self) -> float:
        """Difference of the two speedups."""
        return abs(self.at_high.speedup - self.at_low.speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """Effect of each number on the result, varied alone."""

    steps: str
    """Description of the simulated steps."""
    base: SweepOutcome
    """Result with nothing varied, on the same steps."""
    swings: tuple[Swing, ...]
    """Effects, the largest first."""


def count(scenario: Scenario, cap: int) -> int:
    """Return the number of simulations of both sides."""
    return 2 * len(variations(scenario, cap)) + 1


def sensitivity(
    scenario: Scenario,
    trace: RunTrace,
    steps: Steps,
    *,
    processes: int,
    progress: Callable[[int], None] = lambda _: None,
) -> Sensitivity:
    """
    Vary one number at a time: those with intervals, tails, drafters, updates and the fleet.

    Args:
        scenario: The scenario to vary.
        trace: The whole run.
        steps: Its steps on which variants are simulated.
        processes: Number of concurrent simulations.
        progress: Called with the number of finished simulations.
    """
    varied = variations(scenario, trace.cap)
    todo = [Variant(name="base", scenario=scenario)]
    for each in varied:
        todo += [_variant(f"{each.name} low", scenario, steps, each.lower)]
        todo += [_variant(f"{each.name} high", scenario, steps, each.higher)]
    found = dict[str, SweepOutcome]()
    for variant, outcome in outcomes(todo, steps, processes=processes):
        found[variant.name] = outcome
        progress(len(found))
    swings = [_swing(each, found) for each in varied]
    swings.sort(key=lambda swing: (-swing.width, swing.name))
    return Sensitivity(steps=said(steps, trace), base=found["base"], swings=tuple(swings))


def _variant(
    name: str, scenario: Scenario, steps: Steps, change: Callable[[Scenario, Steps], tuple[Scenario, Steps]]
) -> Variant:
    changed, own = change(scenario, steps)
    return Variant(name=name, scenario=changed, steps=None if own is steps else own)


def _swing(variation: Variation, found: dict[str, SweepOutcome]) -> Swing:
    return Swing(
        name=variation.name,
        what=variation.what,
        low=variation.low,
        high=variation.high,
        at_low=found[f"{variation.name} low"],
        at_high=found[f"{variation.name} high"],
    )
