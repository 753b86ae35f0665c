"""The retained result of one of many simulations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tlt_simulator.result import SimulatedRun
from tlt_simulator.run import simulate
from tlt_simulator.scenario import Scenario
from tlt_simulator.trace import TraceStep


@dataclass(frozen=True, slots=True, kw_only=True)
class SideOutcome:
    """Result of one side of a simulated run."""

    seconds: float
    rollout_s: float
    bubble_utilisation: float
    accept_length: float
    drafters: int
    """Number of published drafters."""
    events: int

    @classmethod
    def of(cls, run: SimulatedRun) -> "SideOutcome":
        """Return the retained result of a run."""
        rounds = sum(step.rounds for step in run.steps)
        return cls(
            seconds=run.seconds,
            rollout_s=run.rollout_s,
            bubble_utilisation=run.bubble_utilisation,
            accept_length=sum(step.tokens for step in run.steps) / rounds if rounds else 1.0,
            drafters=len(run.publications),
            events=run.events,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """Results of both sides."""

    without: SideOutcome
    with_suite: SideOutcome

    @property
    def speedup(self) -> float:
        """Ratio of the run's duration without the suite to that with it."""
        return self.without.seconds / self.with_suite.seconds

    @property
    def rollout_speedup(self) -> float:
        """The same ratio for rollouts only."""
        return self.without.rollout_s / self.with_suite.rollout_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A simulation to run, identified by `name`."""

    name: str
    scenario: Scenario
    steps: tuple[TraceStep, ...] | None = None
    """None for the steps that all variants share."""


class Stopped(Exception):  # noqa: N818 - not an error: somebody asked for it
    """The simulation was stopped."""


def side_of(
    steps: Sequence[TraceStep], scenario: Scenario, *, is_stopped: Callable[[], bool] = lambda: False
) -> SideOutcome:
    """
    Simulate one side.

    Raises:
        Stopped: `is_stopped` returned True after a step.
    """

    def look(_: int) -> None:
        if is_stopped():
            raise Stopped

    return SideOutcome.of(simulate(steps, scenario, progress=look))
