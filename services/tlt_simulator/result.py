"""Result of a simulated run. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

from tlt_common.domain.fleet import BUBBLES, WorkerState
from tlt_simulator.scenario import Scenario

TAIL_RUNNING = 4
"""Requests per worker at most in what counts as the tail of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """Result of a step. Durations are in seconds."""

    number: int
    """Number of the step, from 1."""
    began_s: float
    """Start time, in seconds since the start of the run."""
    rollout_s: float
    """Time from its first request to its last response."""
    waited_s: float
    """Part of it in which the RL trainer waited: all of it, unless the trainer is asynchronous."""
    learn_s: float
    update_s: float
    tail_s: float
    """Duration of the rollout's part with at most TAIL_RUNNING requests per worker; 0 if other steps' requests run."""
    responses: int
    tokens: int
    generated: float
    """Tokens that workers generated while the step lasted, of any step's responses."""
    rounds: float
    """Their rounds, summed over requests."""
    staleness: float
    """Mean number of updates between the weights that wrote a token and those that learn from it."""
    max_staleness: int
    drafter: int
    """Drafter version at the end of the step; 0 for none."""
    quality: float
    """Acceptance probability of the first draft at its end; 0 without a drafter."""
    by_state: Mapping[str, float]
    """Device-seconds by `WorkerState`."""

    @property
    def seconds(self) -> float:
        """Duration of the whole step."""
        return self.waited_s + self.learn_s + self.update_s

    @property
    def accept_length(self) -> float:
        """Tokens per request and round."""
        return self.generated / self.rounds if self.rounds else 1.0


@dataclass(frozen=True, slots=True)
class StateTurn:
    """A change of a worker's state."""

    at_s: float
    worker: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """A simulated run."""

    steps: tuple[StepRun, ...]
    turns: tuple[tuple[StateTurn, ...], ...]
    """Changes of state per step, in order of time. Each step starts with one for every worker."""
    publications: tuple[tuple[float, int, float], ...] = ()
    """Time, version and acceptance probability of each publication."""
    events: int = 0
    """Number of processed events."""
    wall_s: float = 0.0
    """Wall time of the simulation in seconds."""

    @property
    def seconds(self) -> float:
        """Duration of the run."""
        return sum(step.seconds for step in self.steps)

    @property
    def rollout_s(self) -> float:
        """Seconds of rollout, summed over steps, which overlap if the trainer is asynchronous."""
        return sum(step.rollout_s for step in self.steps)

    @property
    def waited_s(self) -> float:
        """Seconds in which the RL trainer waited for rollouts."""
        return sum(step.waited_s for step in self.steps)

    @property
    def tokens_s(self) -> float:
        """Tokens per second that the RL trainer learned from."""
        return sum(step.tokens for step in self.steps) / self.seconds if self.steps else 0.0

    @property
    def staleness(self) -> float:
        """Mean over all tokens of the number of updates between writing and learning."""
        tokens = sum(step.tokens for step in self.steps)
        return sum(step.staleness * step.tokens for step in self.steps) / tokens if tokens else 0.0

    @property
    def max_staleness(self) -> int:
        """Maximum of it."""
        return max((step.max_staleness for step in self.steps), default=0)

    def state_s(self, *states: str) -> float:
        """Return the device-seconds in these states, summed exactly: the order of sets differs between processes."""
        return fsum(step.by_state.get(state, 0.0) for step in self.steps for state in states)

    @property
    def bubble_utilisation(self) -> float:
        """Share of idle device-seconds that trained drafters, as the ledger defines it."""
        unused = self.state_s(*BUBBLES)
        return self.state_s(WorkerState.TRAINING) / unused if unused else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same run with and without the suite."""

    scenario: Scenario
    source: str
    """Source of the trace."""
    without: SimulatedRun
    with_suite: SimulatedRun
    notes: tuple[str, ...] = field(default=())

    @property
    def speedup(self) -> float:
        """Ratio of the run's duration without the suite to that with it."""
        return self.without.seconds / self.with_suite.seconds

    @property
    def rollout_speedup(self) -> float:
        """The same ratio for rollouts only."""
        return self.without.rollout_s / self.with_suite.rollout_s
