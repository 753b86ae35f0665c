"""
Accounts for every device-second. Pure: callers pass the time, in monotonic Unix seconds.

A worker is in exactly one state from the moment it is first seen, so its seconds add up to the time since then, times
its devices. Only computation counts as training: lent time is split according to the trainer's reports.

Every change updates the sums over all workers, so that reading them does not iterate over workers.
"""

from array import array
from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tlt_common.domain.fleet import BUBBLES, PastChange, StateChange, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_common.domain.server_info import Bubbles
from tlt_common.timeline import STATES, WorkerTrack
from tlt_coordinator.account.lent_time import LENT_STATES, LentTime, Span, without_training

TIMELINE_CHANGES = 4096
"""State changes kept per worker: hours of a run that changes state every few seconds."""
ALL_CHANGES = 2**23
"""State changes kept of all workers, 75 MB; where that is less than TIMELINE_CHANGES of each, each has its part."""
LEAST_CHANGES = 256
"""Kept per worker in a fleet of any size."""

MAX_RECALLED_S = 86_400.0
"""Seconds before a worker is first seen from which on its history is shown."""

_NUMBER = {state: number for number, state in enumerate(STATES)}
_ZEROS = dict.fromkeys(STATES, 0.0)
"""Copied, since to iterate over an enum takes longer than all else that a report costs."""


class TimelineCapacity:
    """
    Capacity of a fleet's timelines.

    Attributes:
        changes: State changes that each worker keeps, and up to a quarter more.
    """

    def __init__(self) -> None:
        self.changes = TIMELINE_CHANGES

    def share(self, workers: int) -> None:
        """Divide the capacity among this many workers."""
        self.changes = max(LEAST_CHANGES, min(TIMELINE_CHANGES, ALL_CHANGES // workers))


class Account:
    """
    The device-seconds of one worker, with one device unless it was resized.

    Args:
        state: Its initial state.
        now_s: Current time.
        capacity: Number of changes it keeps; None for as many as for a single worker.
    """

    def __init__(self, state: WorkerState, now_s: float, capacity: TimelineCapacity | None = None) -> None:
        self._capacity = capacity or TimelineCapacity()
        self._state = state
        self._since_s = now_s
        self._devices = 1
        self._lent = False
        self._lent_time = LentTime()
        self._training_s: float | None = None  # as last reported; None: nothing was reported on this stream
        self._seconds: dict[WorkerState, float] = _ZEROS.copy()
        self._change_states = bytearray([_NUMBER[state]])
        self._change_times = array("d", [now_s])

    @property
    def state(self) -> WorkerState:
        return self._state

    @property
    def since_s(self) -> float:
        """Time of the latest change."""
        return self._since_s

    @property
    def state_since_s(self) -> float:
        """Time at which it entered its state."""
        return self._change_times[-1]

    @property
    def grows(self) -> WorkerState:
        """The state whose seconds grow with time until the next change, by `devices` each second."""
        return without_training(self._state) if self._is_open else self._state

    @property
    def devices(self) -> int:
        """Number of its devices."""
        return self._devices

    def timeline(self, count: int | None = None) -> tuple[StateChange, ...]:
        """Return the latest `count` changes, oldest first; None returns all that are kept."""
        kept = min(len(self._change_times), self._capacity.changes, TIMELINE_CHANGES if count is None else count)
        first = len(self._change_times) - kept
        return tuple(
            StateChange(state=STATES[number], at_unix_s=at_s)
            for number, at_s in zip(self._change_states[first:], self._change_times[first:], strict=True)
        )

    def track(self, label: str, now_s: float) -> WorkerTrack:
        """Return all kept changes, to be read before the next change."""
        return WorkerTrack(
            label=label,
            devices=self._devices,
            times_s=self._change_times,
            states=self._change_states,
            until_s=now_s,
        )

    def is_said_by(self, status: WorkerStatus) -> bool:
        """Whether a status would leave the account unchanged."""
        return (
            status.state is self._state
            and not (status.lent or self._is_open or self._lent)
            and status.training_s == self._training_s
        )

    def report(self, status: WorkerStatus, now_s: float) -> None:
        """Account for the time up to now, using the trainer's computed seconds, and change state."""
        if self._training_s is not None:
            # A smaller number is that of another process of the same worker.
            new_s = status.training_s - self._training_s
            self._lent_time.compute(new_s if new_s >= 0.0 else status.training_s)
        self._training_s = status.training_s
        self._enter(status.state, now_s)
        self._lent = status.lent
        if status.lent:
            self._add(self._lent_time.settle(now_s - status.training_age_s))
        else:
            self._add(self._lent_time.end(now_s))

    def recall(self, history: Sequence[PastChange]) -> None:
        """Start the timeline with the worker's history before it was first seen, which is in no sum."""
        self._change_states[:0] = bytearray(_NUMBER[change.state] for change in history)
        self._change_times[:0] = array("d", [self._since_s - change.age_s for change in history])

    def resize(self, devices: int, training_devices: int, now_s: float) -> None:
        """
        Account for the time up to now, and change the number of devices.

        Args:
            devices: Number of devices.
            training_devices: Number of devices that its trainer uses.
            now_s: Current time.
        """
        self._enter(self._state, now_s)
        self._add(self._lent_time.end(now_s))
        self._devices = devices
        self._lent_time = LentTime(devices, training_devices)

    def lose(self, now_s: float) -> None:
        """Account for the time up to now. The worker is gone and reports nothing further."""
        self._enter(WorkerState.DOWN, now_s)
        self._lent, self._training_s = False, None
        self._add(self._lent_time.end(now_s))

    def seconds(self, now_s: float) -> dict[WorkerState, float]:
        """
        Return the device-seconds per state up to now, for every state. They add up to the time since it was first seen,
        times its devices.

        Time that is not settled counts as if no device had computed; see `unsettled`.
        """
        unsettled = self.unsettled(now_s)
        whole = {state: seconds + unsettled[state] for state, seconds in self._seconds.items()}
        if not self._is_open:
            whole[self._state] += self._since(now_s)
        return whole

    def parts(self) -> Iterator[tuple[WorkerState, float]]:
        """Yield `seconds` up to the latest change, in parts."""
        yield from self._seconds.items()
        for span in self._lent_time.spans:
            yield without_training(span.state), self._devices * (span.to_s - span.from_s)

    def unsettled(self, now_s: float) -> dict[WorkerState, float]:
        """Return the part of `seconds` that may turn out to be training."""
        seconds = _ZEROS.copy()
        for span in self._lent_time.spans:
            seconds[without_training(span.state)] += self._devices * (span.to_s - span.from_s)
        if self._is_open:
            seconds[without_training(self._state)] += self._since(now_s)
        return seconds

    def settled(self, now_s: float) -> dict[WorkerState, float]:
        """Return `seconds` without `unsettled`; each only increases, apart from rounding."""
        settled = self._seconds.copy()
        if not self._is_open:
            settled[self._state] += self._since(now_s)
        return settled

    @property
    def _is_open(self) -> bool:
        """Whether the time since the last change may turn out to be training."""
        return self._state is WorkerState.TRAINING or (self._lent and self._state in LENT_STATES)

    def _since(self, now_s: float) -> float:
        """Return the device-seconds since the latest change."""
        return self._devices * (now_s - self._since_s)

    def _enter(self, state: WorkerState, now_s: float) -> None:
        if self._is_open:
            self._lent_time.add(Span(state=self._state, from_s=self._since_s, to_s=now_s))
        else:
            self._seconds[self._state] += self._since(now_s)
        self._since_s = now_s
        if state is not self._state:
            self._state = state
            self._change_states.append(_NUMBER[state])
            self._change_times.append(now_s)
            kept = self._capacity.changes
            if len(self._change_times) >= kept + kept // 4:
                del self._change_states[:-kept], self._change_times[:-kept]

    def _add(self, seconds: Mapping[WorkerState, float]) -> None:
        for state, added_s in seconds.items():
            self._seconds[state] += added_s


class _Sum:
    """Device-seconds of all workers in one state: up to each worker's latest change, and since."""

    def __init__(self) -> None:
        self.until_changes_s = 0.0
        self.growing = 0
        self.growing_since_s = 0.0

    def at(self, now_s: float) -> float:
        return self.until_changes_s + self.growing * now_s - self.growing_since_s


class Ledger:
    """
    The accounts of all workers ever seen.

    Args:
        earlier: Device-seconds of the fleet in earlier ledgers, by state.
    """

    def __init__(self, earlier: Mapping[WorkerState, float] | None = None) -> None:
        self._earlier = {**_ZEROS, **(earlier or {})}
        self._accounts: dict[WorkerId, Account] = {}
        self._capacity = TimelineCapacity()
        self._order: list[WorkerId] = []
        self._sorted: list[WorkerId] = []
        self.since_s: float | None = None
        """Begin of the first timeline; None: there is none."""
        self._sums = {state: _Sum() for state in STATES}
        self._began_s: float | None = None
        """Sums are relative to it: of Unix times, thousands of which are added, the last digits would be lost."""

    def report(self, worker_id: WorkerId, status: WorkerStatus, now_s: float) -> None:
        """Set the state of a worker from now on; open an account for a new worker."""
        account = self._opened(worker_id, status.state, now_s)
        if account.is_said_by(status):
            return
        self._count(account, -1)
        account.report(status, now_s)
        self._count(account, 1)

    def join(self, hello: WorkerHello, now_s: float) -> None:
        """Record a worker that has said hello but sent no status as down. Opens an account for a new worker."""
        is_new = hello.worker_id not in self._accounts
        account = self._opened(hello.worker_id, WorkerState.DOWN, now_s)
        if is_new:
            account.recall(hello.history)
            age_s = min(hello.history[0].age_s if hello.history else 0.0, MAX_RECALLED_S)
            self.since_s = min(now_s - age_s, now_s if self.since_s is None else self.since_s)
        self._count(account, -1)
        account.lose(now_s)
        account.resize(hello.devices, hello.training_devices, now_s)
        self._count(account, 1)

    def lose(self, worker_id: WorkerId, now_s: float) -> None:
        """Set a worker down from now on; open an account for a new worker."""
        account = self._opened(worker_id, WorkerState.DOWN, now_s)
        self._count(account, -1)
        account.lose(now_s)
        self._count(account, 1)

    def account(self, worker_id: WorkerId) -> Account:
        """
        Return the account of a worker.

        Raises:
            KeyError: The worker was never seen.
        """
        return self._accounts[worker_id]

    @property
    def worker_ids(self) -> Sequence[WorkerId]:
        """All workers ever seen, in order of their ids."""
        return self._sorted

    def next_accounts(self, after: int, count: int) -> tuple[list[tuple[WorkerId, Account]], int]:
        """Return up to `count` accounts from position `after` on, and the position to continue at: 0 after the last."""
        chosen = [(worker_id, self._accounts[worker_id]) for worker_id in islice(self._order, after, after + count)]
        following = after + len(chosen)
        return chosen, following if following < len(self._order) else 0

    def totals(self, now_s: float) -> dict[WorkerState, float]:
        """Return the device-seconds of all workers together by state, those of earlier ledgers included."""
        since_s = 0.0 if self._began_s is None else now_s - self._began_s
        return {state: self._earlier[state] + max(0.0, total.at(since_s)) for state, total in self._sums.items()}

    def bubbles(self, now_s: float) -> Bubbles:
        """Return the device-seconds of all workers that are not rollout."""
        seconds = self.totals(now_s)
        return Bubbles(total_s=sum(seconds[state] for state in BUBBLES), training_s=seconds[WorkerState.TRAINING])

    def _opened(self, worker_id: WorkerId, state: WorkerState, now_s: float) -> Account:
        account = self._accounts.get(worker_id)
        if account is None:
            if self._began_s is None:
                self._began_s = now_s
            account = self._accounts[worker_id] = Account(state, now_s, self._capacity)
            self._capacity.share(len(self._accounts))
            self._order.append(worker_id)
            insort(self._sorted, worker_id)
            self.since_s = now_s if self.since_s is None else min(now_s, self.since_s)
            self._count(account, 1)
        return account

    def _count(self, account: Account, sign: int) -> None:
        """Add an account to the sums, or subtract it before it changes."""
        for state, seconds in account.parts():
            self._sums[state].until_changes_s += sign * seconds
        growing = self._sums[account.grows]
        growing.growing += sign * account.devices
        growing.growing_since_s += sign * account.devices * (account.since_s - (self._began_s or 0.0))
