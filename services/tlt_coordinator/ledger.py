"""
Where every device-second went. Pure: times come from the caller, on one axis of Unix seconds that never goes back.

A worker is in exactly one state from when it is first seen, so its seconds add up to the time since then.
"""

from collections import deque
from collections.abc import Iterable, Mapping

from tlt_common.domain.fleet import StateChange, WorkerState
from tlt_common.domain.ids import WorkerId

TIMELINE_CHANGES = 4096
"""Changes of state remembered per worker: some 130 kB, and hours of a run that changes state every few seconds."""


class Account:
    """The seconds of one worker."""

    def __init__(self, state: WorkerState, now_s: float) -> None:
        self._state = state
        self._since_s = now_s
        self._seconds: dict[WorkerState, float] = dict.fromkeys(WorkerState, 0.0)
        self._timeline = deque([StateChange(state=state, at_unix_s=now_s)], maxlen=TIMELINE_CHANGES)

    @property
    def state(self) -> WorkerState:
        return self._state

    @property
    def timeline(self) -> tuple[StateChange, ...]:
        """The latest changes, oldest first."""
        return tuple(self._timeline)

    def enter(self, state: WorkerState, now_s: float) -> None:
        """Book the time spent until now, and change state."""
        self._seconds[self._state] += now_s - self._since_s
        self._since_s = now_s
        if state is not self._state:
            self._state = state
            self._timeline.append(StateChange(state=state, at_unix_s=now_s))

    def seconds(self, now_s: float) -> dict[WorkerState, float]:
        """Seconds per state up to now; every state is named."""
        return self._seconds | {self._state: self._seconds[self._state] + now_s - self._since_s}


class Ledger:
    """The accounts of all workers ever seen."""

    def __init__(self) -> None:
        self._accounts: dict[WorkerId, Account] = {}

    def enter(self, worker_id: WorkerId, state: WorkerState, now_s: float) -> None:
        """Say what a worker does from now on. Its account is opened when it is new."""
        if worker_id in self._accounts:
            self._accounts[worker_id].enter(state, now_s)
        else:
            self._accounts[worker_id] = Account(state, now_s)

    def account(self, worker_id: WorkerId) -> Account:
        """
        Return the account of a worker.

        Raises:
            KeyError: It was never seen.
        """
        return self._accounts[worker_id]

    def bubble_utilisation(self, now_s: float) -> float:
        """Share of all bubbles so far that was used for training."""
        return bubble_utilisation(account.seconds(now_s) for account in self._accounts.values())


def bubble_utilisation(workers: Iterable[Mapping[WorkerState, float]]) -> float:
    """Training / (training + idle + switching), seconds of all workers together; 0 when there was no bubble."""
    bubble_s = training_s = 0.0
    for seconds in workers:
        training_s += seconds[WorkerState.TRAINING]
        bubble_s += seconds[WorkerState.IDLE] + seconds[WorkerState.SWITCHING]
    whole_s = training_s + bubble_s
    return training_s / whole_s if whole_s > 0.0 else 0.0
