"""State histories of simulated workers: steps with a long tail, whose idle time trains the drafter."""

import random
from bisect import bisect_right
from dataclasses import dataclass

from tlt_common.domain.fleet import PastChange, WorkerState

STEP_S = 120.0
UPDATE_S = 3.0
DISTINCT = 256
"""Courses that differ; workers of larger fleets share them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCourse:
    """The states of a worker over time."""

    times_s: tuple[float, ...]
    """Seconds since the beginning, ascending."""
    states: tuple[WorkerState, ...]

    def at(self, time_s: float) -> int:
        """Return the index of the state at a time."""
        return max(0, bisect_right(self.times_s, time_s) - 1)

    def history(self, time_s: float) -> tuple[PastChange, ...]:
        """Return the changes up to a time, as a worker reports them when it joins."""
        last = self.at(time_s)
        return tuple(
            PastChange(state=state, age_s=time_s - at_s)
            for at_s, state in zip(self.times_s[:last], self.states[:last], strict=True)
        )


def course(seed: int, length_s: float) -> WorkerCourse:
    """Draw a history: every step is a rollout, its tail, and an update of the weights."""
    drawn = random.Random(seed)
    times, states = list[float](), list[WorkerState]()

    def enter(state: WorkerState, at_s: float) -> None:
        times.append(at_s)
        states.append(state)

    began_s = 0.0
    while began_s < length_s:
        ended_s = began_s + STEP_S - UPDATE_S
        at_s = began_s + min(0.8 * STEP_S, 0.2 * STEP_S * drawn.paretovariate(2.2))
        enter(WorkerState.ROLLOUT, began_s)
        enter(WorkerState.IDLE, at_s)
        at_s += drawn.uniform(0.4, 2.0)
        enter(WorkerState.SWITCHING, at_s)
        at_s += drawn.uniform(0.3, 1.0)
        while at_s < ended_s:
            enter(WorkerState.TRAINING, at_s)
            at_s += drawn.uniform(8.0, 40.0)
            if at_s < ended_s and drawn.random() < 0.3:
                enter(drawn.choice((WorkerState.RESTING, WorkerState.SWITCHING, WorkerState.STARTING)), at_s)
                at_s += drawn.uniform(1.0, 3.0)
        enter(WorkerState.UPDATING, ended_s)
        began_s += STEP_S
    return WorkerCourse(times_s=tuple(times), states=tuple(states))
