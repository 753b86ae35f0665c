"""What a simulated run came to. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

from tlt_common.domain.fleet import BUBBLES, WorkerState
from tlt_simulator.scenario import Scenario

TAIL_RUNNING = 4
"""Requests per worker at most in what counts as the tail of a rollout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """A step. Durations are seconds."""

    number: int
    """From 1."""
    began_s: float
    """Since the beginning of the run."""
    rollout_s: float
    learn_s: float
    update_s: float
    tail_s: float
    """Part of the rollout in which at most TAIL_RUNNING requests per worker ran."""
    responses: int
    tokens: int
    rounds: float
    """Summed over requests; `tokens` ÷ this is the accept length."""
    drafter: int
    """Version with which it ended; 0: none."""
    quality: float
    """Probability that the first draft is accepted, at its end; 0 without a drafter."""
    by_state: Mapping[str, float]
    """Device-seconds by `WorkerState`."""

    @property
    def seconds(self) -> float:
        """Duration of the whole step."""
        return self.rollout_s + self.learn_s + self.update_s

    @property
    def accept_length(self) -> float:
        """Tokens per request and round."""
        return self.tokens / self.rounds if self.rounds else 1.0


@dataclass(frozen=True, slots=True)
class StateTurn:
    """A worker is in another state from now on."""

    at_s: float
    worker: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRun:
    """A simulated run."""

    steps: tuple[StepRun, ...]
    turns: tuple[tuple[StateTurn, ...], ...]
    """Per step, in order of time; each begins with a turn for every worker."""
    publications: tuple[tuple[float, int, float], ...] = ()
    """When, which version, and its accept probability."""
    events: int = 0
    """Discrete events that were processed."""
    wall_s: float = 0.0
    """Seconds that the simulation took."""

    @property
    def seconds(self) -> float:
        """Duration of the run."""
        return sum(step.seconds for step in self.steps)

    @property
    def rollout_s(self) -> float:
        """Seconds of rollout."""
        return sum(step.rollout_s for step in self.steps)

    def state_s(self, *states: str) -> float:
        """Return the device-seconds in these states, whatever their order, which sets change with each process."""
        return fsum(step.by_state.get(state, 0.0) for step in self.steps for state in states)

    @property
    def bubble_utilisation(self) -> float:
        """Share of unused device-seconds in which drafters were trained, as the ledger defines it."""
        unused = self.state_s(*BUBBLES)
        return self.state_s(WorkerState.TRAINING) / unused if unused else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The same run with and without the suite."""

    scenario: Scenario
    source: str
    """What the trace was read from."""
    without: SimulatedRun
    with_suite: SimulatedRun
    notes: tuple[str, ...] = field(default=())

    @property
    def speedup(self) -> float:
        """Duration of the run without the suite ÷ with it."""
        return self.without.seconds / self.with_suite.seconds

    @property
    def rollout_speedup(self) -> float:
        """The same for rollouts alone."""
        return self.without.rollout_s / self.with_suite.rollout_s
