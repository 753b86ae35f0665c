"""A published run: what is known of it, and what is assumed. Pure."""

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
    """What was published of a run."""

    STEP = "step"
    """How many times as fast its steps are."""
    ROLLOUT = "rollout"
    """How many times as fast its rollouts are."""
    DAYS = "days"
    """How long it took without the suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """One published number."""

    label: str
    scenario: Scenario
    trace: Callable[[int], RunTrace]
    """Returns so many steps."""
    steps: int
    """Steps of the run."""
    measure: Measure
    published: float
    rollout_share: float | None = None
    """Share of a step that rollouts take without the suite; null: `scenario` says how long learning takes."""

    def prepared(self) -> Scenario:
        """Return the scenario, with the duration of learning; that simulates a few steps."""
        if self.rollout_share is None:
            return self.scenario
        return with_rollout_share(self.trace(SHARE_STEPS).steps, self.scenario, self.rollout_share)

    def found(self, comparison: Comparison) -> float:
        """Return what a simulation says for the published number."""
        match self.measure:
            case Measure.STEP:
                return comparison.speedup
            case Measure.ROLLOUT:
                return comparison.rollout_speedup
            case Measure.DAYS:
                return comparison.without.seconds / len(comparison.without.steps) * self.steps / 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCase:
    """Published numbers that one calibration is to explain."""

    name: str
    title: str
    rows: tuple[CaseRow, ...]
    known: tuple[str, ...]
    """What was published, with sources."""
    assumed: tuple[str, ...]
    """What was not, and is assumed here."""
