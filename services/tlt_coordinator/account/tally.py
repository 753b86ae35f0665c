"""Sums over the last statuses of all workers, so that fleet-wide figures need no iteration over them. Pure."""

from collections import Counter

from tlt_common.domain.fleet import Member, WorkerState
from tlt_common.domain.ids import DrafterVersion

_PARTS = 10**6
"""Accept lengths are added up in millionths: sums of integers do not drift."""


class FleetTally:
    """
    Attributes:
        by_state: Workers by state; all states are there.
        running: Running requests.
        devices: Devices of all workers ever seen.
        loaded: Workers by the drafter they have loaded, without those that are down.
    """

    def __init__(self) -> None:
        self.by_state = dict.fromkeys(WorkerState, 0)
        self.running = 0
        self.devices = 0
        self.loaded: Counter[DrafterVersion] = Counter()
        self._decoding = 0
        self._accept_length = 0

    @property
    def workers(self) -> int:
        """Number of workers ever seen."""
        return sum(self.by_state.values())

    @property
    def accept_length(self) -> float | None:
        """Mean tokens per verification round over decoding workers; None if none is decoding."""
        return self._accept_length / _PARTS / self._decoding if self._decoding else None

    def replace(self, before: Member | None, after: Member) -> None:
        """Count a worker's current status; `before` is its previously counted one."""
        if before is not None:
            self._count(before, -1)
        self._count(after, 1)

    def _count(self, member: Member, sign: int) -> None:
        status = member.status
        self.by_state[status.state] += sign
        self.running += sign * status.running
        self.devices += sign * member.hello.devices
        if status.state is WorkerState.ROLLOUT and status.accept_length > 0:
            self._decoding += sign
            self._accept_length += sign * round(status.accept_length * _PARTS)
        if status.state is not WorkerState.DOWN and status.drafter_version:
            self.loaded[status.drafter_version] += sign
            if not self.loaded[status.drafter_version]:
                del self.loaded[status.drafter_version]
