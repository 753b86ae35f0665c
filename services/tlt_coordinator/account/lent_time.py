"""
Time for which a spot trainer held devices, until the trainer has reported how much of it they computed.

A worker learns of its trainer's computation a second late, so the latest lent time is not attributed yet. Pure: times
come from the caller, in monotonic seconds.
"""

from collections import deque
from dataclasses import dataclass

from tlt_common.domain.fleet import WorkerState

_IN_ORDER = (WorkerState.TRAINING, WorkerState.SWITCHING, WorkerState.IDLE, WorkerState.RESTING)
"""The states of lent time. Computed seconds are taken from the first that has some."""

LENT_STATES = frozenset(_IN_ORDER)


def without_training(state: WorkerState) -> WorkerState:
    """Return the state in which lent time counts if the device did not compute."""
    return WorkerState.SWITCHING if state is WorkerState.TRAINING else state


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Time in one state."""

    state: WorkerState
    from_s: float
    to_s: float


class LentTime:
    """
    Spans that are not settled yet, and computed seconds that are not assigned yet.

    Args:
        devices: Number of devices of the worker.
        used: Number of devices that its trainer uses. The others are idle while it trains.
    """

    def __init__(self, devices: int = 1, used: int = 1) -> None:
        self._devices = devices
        self._used = used
        self._spans: deque[Span] = deque()
        self._computed_s = 0.0

    @property
    def spans(self) -> tuple[Span, ...]:
        """The unsettled spans."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Add the latest span."""
        if span.to_s > span.from_s:
            self._spans.append(span)

    def compute(self, seconds: float) -> None:
        """Add computed device-seconds."""
        self._computed_s += seconds

    def settle(self, until_s: float) -> dict[WorkerState, float]:
        """Return the device-seconds per state of all time up to then, which is no longer kept."""
        lent_s = dict.fromkeys(_IN_ORDER, 0.0)
        while self._spans and self._spans[0].from_s < until_s:
            span = self._spans.popleft()
            end_s = min(span.to_s, until_s)
            lent_s[span.state] += self._devices * (end_s - span.from_s)
            if end_s < span.to_s:
                self._spans.appendleft(Span(state=span.state, from_s=end_s, to_s=span.to_s))
        settled = dict.fromkeys(_IN_ORDER, 0.0)
        unused_s = lent_s[WorkerState.TRAINING] * (self._devices - self._used) / self._devices
        lent_s[WorkerState.TRAINING] -= unused_s
        settled[WorkerState.IDLE] += unused_s
        for state in _IN_ORDER:
            computed_s = min(self._computed_s, lent_s[state])
            self._computed_s -= computed_s
            settled[WorkerState.TRAINING] += computed_s
            settled[without_training(state)] += lent_s[state] - computed_s
        return settled

    def end(self, now_s: float) -> dict[WorkerState, float]:
        """Settle all spans, since the trainer no longer holds the device. Drops remaining computed seconds."""
        settled = self.settle(now_s)
        self._computed_s = 0.0
        return settled
