"""The latest states of a worker, for a coordinator that has not seen them. Pure: times come from the caller."""

from collections import deque

from tlt_common.domain.fleet import HISTORY_CHANGES, StateChange, WorkerState


class StateHistory:
    """The last changes of state, oldest first."""

    def __init__(self) -> None:
        self._changes: deque[StateChange] = deque(maxlen=HISTORY_CHANGES)

    @property
    def changes(self) -> tuple[StateChange, ...]:
        """The changes that are kept."""
        return tuple(self._changes)

    def note(self, state: WorkerState, at_unix_s: float) -> None:
        """Note the state at a time; does nothing if it has not changed. A clock that was set back stands still."""
        last = self._changes[-1] if self._changes else None
        if last is None or last.state is not state:
            self._changes.append(StateChange(state=state, at_unix_s=max(at_unix_s, last.at_unix_s if last else 0.0)))
