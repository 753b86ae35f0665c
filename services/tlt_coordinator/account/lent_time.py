"""
Time for which a spot trainer held a device, until the trainer has said how much of it the device computed.

A worker knows what its trainer computed a second late, so what was lent last is neither training nor anything else yet.
Pure: times come from the caller, in monotonic seconds.
"""

from collections import deque
from dataclasses import dataclass

from tlt_common.domain.fleet import WorkerState

_IN_ORDER = (WorkerState.TRAINING, WorkerState.SWITCHING, WorkerState.IDLE)
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
    """Spans that are not settled yet, and computed seconds that are not assigned yet."""

    def __init__(self) -> None:
        self._spans: deque[Span] = deque()
        self._computed_s = 0.0

    @property
    def spans(self) -> tuple[Span, ...]:
        """The spans that are not settled."""
        return tuple(self._spans)

    def add(self, span: Span) -> None:
        """Add the latest span."""
        if span.to_s > span.from_s:
            self._spans.append(span)

    def compute(self, seconds: float) -> None:
        """Note that the device computed."""
        self._computed_s += seconds

    def settle(self, until_s: float) -> dict[WorkerState, float]:
        """Return the seconds per state of all time up to then, which is no longer kept."""
        lent_s = dict.fromkeys(_IN_ORDER, 0.0)
        while self._spans and self._spans[0].from_s < until_s:
            span = self._spans.popleft()
            end_s = min(span.to_s, until_s)
            lent_s[span.state] += end_s - span.from_s
            if end_s < span.to_s:
                self._spans.appendleft(Span(state=span.state, from_s=end_s, to_s=span.to_s))
        settled = dict.fromkeys(_IN_ORDER, 0.0)
        for state in _IN_ORDER:
            computed_s = min(self._computed_s, lent_s[state])
            self._computed_s -= computed_s
            settled[WorkerState.TRAINING] += computed_s
            settled[without_training(state)] += lent_s[state] - computed_s
        return settled

    def end(self, now_s: float) -> dict[WorkerState, float]:
        """Settle everything, since the trainer no longer holds the device; drop computed seconds that are left."""
        settled = self.settle(now_s)
        self._computed_s = 0.0
        return settled
