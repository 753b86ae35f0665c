"""History of workers' leases. Pure: callers pass the time."""

from collections import deque
from dataclasses import dataclass

from tlt_common.domain.ids import Epoch, WorkerId

KEPT_LEASES = 2**14
"""Leases remembered of the whole fleet, the latest: 3 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastLease:
    """A lease that a worker held. Times are Unix seconds."""

    worker_id: WorkerId
    epoch: Epoch
    from_s: float
    to_s: float


class LeaseHistory:
    """The leases, as reported by workers."""

    def __init__(self) -> None:
        self._ended: deque[PastLease] = deque(maxlen=KEPT_LEASES)
        self._held: dict[WorkerId, tuple[Epoch, float]] = {}

    def note(self, worker_id: WorkerId, epoch: Epoch, now_s: float) -> None:
        """Record the epoch of a worker's lease; 0 for none."""
        held = self._held.get(worker_id)
        if epoch == (held[0] if held else 0):
            return
        if held is not None:
            self._ended.append(PastLease(worker_id=worker_id, epoch=held[0], from_s=held[1], to_s=now_s))
            del self._held[worker_id]
        if epoch:
            self._held[worker_id] = epoch, now_s

    def between(self, from_s: float, to_s: float, now_s: float) -> list[PastLease]:
        """Return the leases held within a span. Those still held end at the current time."""
        held = (
            PastLease(worker_id=worker_id, epoch=epoch, from_s=since_s, to_s=now_s)
            for worker_id, (epoch, since_s) in self._held.items()
        )
        return [lease for lease in (*self._ended, *held) if lease.from_s < to_s and lease.to_s > from_s]
