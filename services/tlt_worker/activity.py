"""State of the device, derived from facts that the worker's parts report. Pure: no clock, no tasks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from tlt_common.domain.fleet import WorkerState


class Tenancy(StrEnum):
    """Whether the spot trainer holds the device."""

    NONE = "none"
    """It does not hold the device."""
    ENTERING = "entering"
    """It must start and has not confirmed yet."""
    TRAINING = "training"
    """The trainer is training."""
    WAITING = "waiting"
    """It may train but has no data; this still counts as a bubble."""
    LEAVING = "leaving"
    """It must stop and has not confirmed yet; the device is not free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Inputs of the state."""

    running: int = 0
    """Number of requests in the engine."""
    updating: bool = False
    """Policy weights are being loaded."""
    swapping: bool = False
    """A drafter is being loaded."""
    released: bool = False
    """An RL trainer has the device: the engine's memory is released."""
    tenancy: Tenancy = Tenancy.NONE


def state_of(facts: Facts) -> WorkerState:
    """
    Return the state that a device-second is attributed to.

    While a trainer is leaving, the state is SWITCHING even if requests run: the engine shares the device with it until
    it has confirmed, which is the cost of lending. A drafter swap counts only if nothing else is in progress, since it
    stops rollouts for milliseconds.
    """
    if facts.updating:
        return WorkerState.UPDATING
    if facts.tenancy in {Tenancy.ENTERING, Tenancy.LEAVING}:
        return WorkerState.SWITCHING
    if facts.released:
        return WorkerState.TRAINER
    if facts.running:
        return WorkerState.ROLLOUT
    if facts.tenancy is Tenancy.TRAINING:
        return WorkerState.TRAINING
    return WorkerState.SWITCHING if facts.swapping else WorkerState.IDLE


class Activity:
    """The facts of one device. Calls listeners at every change of state."""

    def __init__(self) -> None:
        self._facts = Facts()
        self._listeners: list[Callable[[WorkerState, WorkerState], None]] = []

    @property
    def state(self) -> WorkerState:
        return state_of(self._facts)

    @property
    def running(self) -> int:
        return self._facts.running

    @property
    def busy(self) -> bool:
        """Whether the device must not be lent: requests run, weights are being loaded, or an RL trainer has it."""
        return bool(self._facts.running) or self._facts.updating or self._facts.released

    @property
    def released(self) -> bool:
        """Whether an RL trainer has the device."""
        return self._facts.released

    @property
    def tenancy(self) -> Tenancy:
        return self._facts.tenancy

    def on_transition(self, listener: Callable[[WorkerState, WorkerState], None]) -> None:
        """Call `listener(previous, current)` at every change of state, synchronously and in order of registration."""
        self._listeners.append(listener)

    def set_released(self, *, released: bool) -> None:
        self._change(replace(self._facts, released=released))

    def set_tenancy(self, tenancy: Tenancy) -> None:
        self._change(replace(self._facts, tenancy=tenancy))

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count one running request inside the block."""
        self._change(replace(self._facts, running=self._facts.running + 1))
        try:
            yield
        finally:
            self._change(replace(self._facts, running=self._facts.running - 1))

    @contextmanager
    def update(self) -> Iterator[None]:
        """Mark policy weights as being loaded inside the block. Must not overlap."""
        self._change(replace(self._facts, updating=True))
        try:
            yield
        finally:
            self._change(replace(self._facts, updating=False))

    @contextmanager
    def swap(self) -> Iterator[None]:
        """Mark a drafter as being loaded inside the block. Must not overlap."""
        self._change(replace(self._facts, swapping=True))
        try:
            yield
        finally:
            self._change(replace(self._facts, swapping=False))

    def _change(self, facts: Facts) -> None:
        previous, self._facts = self.state, facts
        if self.state is not previous:
            for listener in self._listeners:
                listener(previous, self.state)
