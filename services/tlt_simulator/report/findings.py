"""Content of a report, with a single definition of each ratio."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import median

from tlt_common.domain.fleet import BUBBLES, WorkerState
from tlt_simulator.cases import CaseRow, Measure
from tlt_simulator.costs.uncertainty import Range
from tlt_simulator.report.interval import ResultInterval
from tlt_simulator.report.sensitivity import Sensitivity
from tlt_simulator.report.what_to_set import WhatToSet
from tlt_simulator.result import Comparison, SimulatedRun, StepRun

SHOWN_STATES = tuple(state for state in WorkerState if state is not WorkerState.DOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """Measured time of the trace's rollouts on one side, compared to the simulation of that side."""

    rollout_s: float
    """Measured rollout time, over the steps that have one."""
    simulated_s: float
    """Simulated rollout time of the same steps."""
    steps: int

    @property
    def error(self) -> float:
        """Share by which the simulation is longer (above 0) or shorter."""
        return self.simulated_s / self.rollout_s - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """A published number and its simulated value."""

    what: str
    published: float
    simulated: float
    interval: Range | None = None
    """90 % interval of the simulated one; None if there is none, as of a duration."""

    @classmethod
    def of(cls, row: CaseRow, comparison: Comparison, interval: ResultInterval | None = None) -> "PublishedRow":
        """Return the row of a case with what was simulated."""
        what = f"{row.label} ({row.measure.value})"
        ends = None
        if interval is not None:
            ends = {Measure.STEP: interval.speedup, Measure.ROLLOUT: interval.rollout_speedup}.get(row.measure)
        return cls(what=what, published=row.published, simulated=row.found(comparison), interval=ends)

    @property
    def is_covered(self) -> bool:
        """Whether the published number is within the interval."""
        return self.interval is not None and self.interval.low <= self.published <= self.interval.high

    @property
    def error(self) -> float:
        """Share by which the simulation is higher (above 0) or lower."""
        return self.simulated / self.published - 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Content of a report."""

    comparison: Comparison
    responses: int
    measured: MeasuredTime | None = None
    """Without the suite; None if the trace has no times of this side."""
    measured_with: MeasuredTime | None = None
    """With the suite, likewise."""
    published: tuple[PublishedRow, ...] = ()
    without_ngrams: Comparison | None = None
    """The same run with the suite's n-grams turned off."""
    sensitivity: Sensitivity | None = None
    interval: ResultInterval | None = None
    what_to_set: WhatToSet | None = None
    missing: tuple[str, ...] = ()
    """Parts that are missing, since the command was interrupted."""
    notes: tuple[str, ...] = field(default=())
    """Notes on the trace and on assumptions."""

    @property
    def measured_sides(self) -> tuple[tuple[str, MeasuredTime], ...]:
        """The sides that the trace has times of, by `without` and `with`."""
        sides = (("without", self.measured), ("with", self.measured_with))
        return tuple((side, found) for side, found in sides if found is not None)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """All notes that readers need before they trust the figures, without duplicates."""
        cut = (f"incomplete: interrupted before {', '.join(self.missing)}",) if self.missing else ()
        return tuple(dict.fromkeys((*cut, *self.notes, *self.comparison.notes)))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPair:
    """A step on both sides."""

    without: StepRun
    with_suite: StepRun

    @property
    def speedup(self) -> float:
        """Duration without the suite ÷ with it."""
        return self.without.seconds / self.with_suite.seconds


def pairs(comparison: Comparison) -> tuple[StepPair, ...]:
    """Return the steps with both sides."""
    both = zip(comparison.without.steps, comparison.with_suite.steps, strict=True)
    return tuple(StepPair(without=without, with_suite=with_suite) for without, with_suite in both)


def typical(comparison: Comparison) -> int:
    """Return the index of the step with the median speedup."""
    order = _by_speedup(comparison)
    return order[len(order) // 2]


def worst(comparison: Comparison) -> int:
    """Return the index of the step with the lowest speedup, the first of equals."""
    return _by_speedup(comparison)[0]


def _by_speedup(comparison: Comparison) -> list[int]:
    both = pairs(comparison)
    return sorted(range(len(both)), key=lambda place: both[place].speedup)


def median_of(run: SimulatedRun, of: Callable[[StepRun], float]) -> float:
    """Return the median over the steps."""
    return median(of(step) for step in run.steps)


def devices_s(run: SimulatedRun, state: str) -> float:
    """Return the device-seconds in a state."""
    return run.state_s(state)


def bubble_use(step: StepRun) -> float:
    """Return the share of a step's idle device-seconds that trained drafters; 0 if there are none."""
    unused = fsum(step.by_state.get(state, 0.0) for state in BUBBLES)
    return step.by_state.get(WorkerState.TRAINING, 0.0) / unused if unused else 0.0


def accept_lengths(steps: Sequence[StepRun]) -> tuple[float, float]:
    """Return the accept length in the first and last tenth of the steps."""
    tenth = max(1, len(steps) // 10)
    return _accept_length(steps[:tenth]), _accept_length(steps[-tenth:])


def _accept_length(steps: Sequence[StepRun]) -> float:
    rounds = sum(step.rounds for step in steps)
    return sum(step.generated for step in steps) / rounds if rounds else 1.0


def measured_time(seconds: Sequence[float | None], run: SimulatedRun) -> MeasuredTime | None:
    """Return the measured rollout times of a trace's steps, compared to a simulation; None if no step has one."""
    known = [(one, step.rollout_s) for one, step in zip(seconds, run.steps, strict=False) if one is not None]
    if not known:
        return None
    measured_s, simulated_s = (sum(column) for column in zip(*known, strict=True))
    return MeasuredTime(rollout_s=measured_s, simulated_s=simulated_s, steps=len(known))
