"""How the result depends on what it rests on, one thing at a time."""

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
    """What one thing does to the result."""

    name: str
    what: str
    low: str
    """What its lower end is, for people."""
    high: str
    at_low: SweepOutcome
    at_high: SweepOutcome

    @property
    def width(self) -> float:
        """Between the two speedups."""
        return abs(self.at_high.speedup - self.at_low.speedup)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What each thing does to the result, alone."""

    steps: str
    """On which it was simulated, for people."""
    base: SweepOutcome
    """With nothing varied, on the same steps."""
    swings: tuple[Swing, ...]
    """The widest first."""


def count(scenario: Scenario, cap: int) -> int:
    """Return how many simulations of both sides it takes."""
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
    Vary one thing at a time: every number with an interval, tails, drafters, updates and the fleet.

    Args:
        scenario: What is varied.
        trace: The whole run.
        steps: Those of it on which variants are simulated.
        processes: How many simulations run at a time.
        progress: Told how many are there.
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
