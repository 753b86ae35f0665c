"""The latest states of a worker, for a coordinator that has not seen them. Pure: callers pass the time."""

from collections import deque

from tlt_common.domain.fleet import HISTORY_CHANGES, PastChange, WorkerState


class StateHistory:
    """The last changes of state."""

    def __init__(self) -> None:
        self._changes: deque[tuple[WorkerState, float]] = deque(maxlen=HISTORY_CHANGES)

    def changes(self, now_s: float) -> tuple[PastChange, ...]:
        """Return the recorded changes, oldest first."""
        return tuple(PastChange(state=state, age_s=max(0.0, now_s - at_s)) for state, at_s in self._changes)

    def note(self, state: WorkerState, now_s: float) -> None:
        """Record the state, on a monotonic clock. Does nothing if it has not changed."""
        if not self._changes or self._changes[-1][0] is not state:
            self._changes.append((state, now_s))
