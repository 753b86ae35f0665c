"""What the device is doing, from the facts the worker's parts report. Pure: no clock, no tasks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from tlt_common.domain.fleet import WorkerState


class Tenancy(StrEnum):
    """How far the spot trainer has come into the device, or out of it."""

    NONE = "none"
    """The trainer does not hold it."""
    ENTERING = "entering"
    """Told to start, has not answered."""
    TRAINING = "training"
    """Trains."""
    WAITING = "waiting"
    """May train, but has nothing to train on: still a bubble."""
    LEAVING = "leaving"
    """Told to stop, has not answered: the device is not free yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything the state follows from."""

    running: int = 0
    """Requests in the engine."""
    updating: bool = False
    """Policy weights are being loaded."""
    swapping: bool = False
    """A drafter is being loaded."""
    tenancy: Tenancy = Tenancy.NONE


def state_of(facts: Facts) -> WorkerState:
    """
    Name the one state a device-second counts for.

    A trainer on its way out makes the state SWITCHING even when requests run: the engine shares the device with it
    until it has answered, and that is the price of lending. A drafter swap counts only when nothing else goes on,
    since it stops rollouts for milliseconds.
    """
    if facts.updating:
        return WorkerState.UPDATING
    if facts.tenancy in {Tenancy.ENTERING, Tenancy.LEAVING}:
        return WorkerState.SWITCHING
    if facts.running:
        return WorkerState.ROLLOUT
    if facts.tenancy is Tenancy.TRAINING:
        return WorkerState.TRAINING
    return WorkerState.SWITCHING if facts.swapping else WorkerState.IDLE


class Activity:
    """The facts of one device. Calls `on_transition(previous, current)` at every change of state."""

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
        """Requests run, or weights are being loaded: nothing may be lent."""
        return bool(self._facts.running) or self._facts.updating

    @property
    def tenancy(self) -> Tenancy:
        return self._facts.tenancy

    def on_transition(self, listener: Callable[[WorkerState, WorkerState], None]) -> None:
        """Call `listener` at every change of state, at once and in order of registration."""
        self._listeners.append(listener)

    def set_tenancy(self, tenancy: Tenancy) -> None:
        self._change(replace(self._facts, tenancy=tenancy))

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request runs inside."""
        self._change(replace(self._facts, running=self._facts.running + 1))
        try:
            yield
        finally:
            self._change(replace(self._facts, running=self._facts.running - 1))

    @contextmanager
    def update(self) -> Iterator[None]:
        """Policy weights are loaded inside. One at a time."""
        self._change(replace(self._facts, updating=True))
        try:
            yield
        finally:
            self._change(replace(self._facts, updating=False))

    @contextmanager
    def swap(self) -> Iterator[None]:
        """A drafter is loaded inside. One at a time."""
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
