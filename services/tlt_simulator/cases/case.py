"""A published run: its known facts and assumptions. Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from tlt_simulator.result import Comparison
from tlt_simulator.run import with_rollout_share
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import RunTrace

SHARE_STEPS = 2
"""Steps from which the duration of learning is derived that goes with a share of rollouts."""


class Measure(StrEnum):
    """Published measure of a run."""

    STEP = "step"
    """Speedup of its steps."""
    ROLLOUT = "rollout"
    """Speedup of its rollouts."""
    DAYS = "days"
    """Its duration without the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """One published number."""

    label: str
    scenario: Scenario
    trace: Callable[[int], RunTrace]
    """Returns a trace with a number of steps."""
    steps: int
    """Number of steps of the run."""
    measure: Measure
    published: float
    rollout_share: float | None = None
    """Rollouts' share of a step without the suite; null if `scenario` has the learning time."""

    def prepared(self) -> Scenario:
        """Return the scenario with the learning time. Simulates a few steps."""
        if self.rollout_share is None:
            return self.scenario
        return with_rollout_share(self.trace(SHARE_STEPS).steps, self.scenario, self.rollout_share)

    def found(self, comparison: Comparison) -> float:
        """Return the simulated value of the published number."""
        match self.measure:
            case Measure.STEP:
                return comparison.speedup
            case Measure.ROLLOUT:
                return comparison.rollout_speedup
            case Measure.DAYS:
                return comparison.without.seconds / len(comparison.without.steps) * self.steps / 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCase:
    """Published numbers that share one calibration."""

    name: str
    title: str
    rows: tuple[CaseRow, ...]
    known: tuple[str, ...]
    """Published facts, with sources."""
    assumed: tuple[str, ...]
    """Assumptions about unpublished facts."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Both, as a report shows them."""
        return (*(f"published: {text}" for text in self.known), *(f"assumed: {text}" for text in self.assumed))
