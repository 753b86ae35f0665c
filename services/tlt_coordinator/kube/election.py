"""
Leader election: what one replica may conclude from the Lease, and what it may write.

Pure: times come from the caller, in seconds of its own monotonic clock. Clocks of replicas are never compared, only
their rates matter: a leader stops `renew_deadline_s` after it *sent* its last successful renewal, another replica takes
over `duration_s` after it *saw* the Lease change, each on its own clock. So two replicas lead at once only if one clock
runs faster than the other by the ratio of the two settings, by default 1.5. The resource version decides who writes: a
write based on an older one is rejected.
"""

from dataclasses import replace
from datetime import datetime

from tlt_coordinator.config import KubernetesSettings
from tlt_coordinator.kube.api import LeaseObject

NEVER = float("-inf")


class LeaderElection:
    """
    One replica's view of the Lease.

    Args:
        identity: Written as the holder; unique per process.
    """

    def __init__(self, identity: str, settings: KubernetesSettings) -> None:
        self._identity = identity
        self._duration_s = settings.lease_duration_s
        self._deadline_s = settings.renew_deadline_s
        self._lease: LeaseObject | None = None
        self._gone = False
        self._changed_at_s = NEVER
        self._leads_until_s = NEVER

    @property
    def lease(self) -> LeaseObject | None:
        """The Lease as last read or written; None: it was never seen."""
        return self._lease

    @property
    def holds(self) -> bool:
        """Whether the Lease names this replica. This alone does not entitle it to lead."""
        return self._lease is not None and not self._gone and self._lease.holder == self._identity

    @property
    def leads_until_s(self) -> float:
        """When this replica stops leading unless another bid succeeds; in the past: it does not lead."""
        return self._leads_until_s

    def observe(self, lease: LeaseObject | None, now_s: float) -> None:
        """
        Record the Lease that was read.

        Args:
            lease: None: it does not exist. The duration of a holder seen before still applies.
            now_s: Time after the read.
        """
        self._gone = lease is None
        if lease is not None:
            if self._lease is None or lease.version != self._lease.version:
                self._changed_at_s = now_s
            self._lease = lease
        if not self.holds:
            self._leads_until_s = NEVER

    def bid(self, now_s: float, wall: datetime) -> LeaseObject | None:
        """
        Return the Lease to write in order to lead, or to continue leading; None: another replica leads.

        Its version is empty if the Lease has to be created.
        """
        lease = self._lease
        if lease is None:
            return LeaseObject(
                holder=self._identity, duration_s=self._duration_s, acquired_at=wall, renewed_at=wall, transitions=0
            )
        mine = lease.holder == self._identity
        if not mine and lease.holder and now_s < self._changed_at_s + lease.duration_s:
            return None
        return replace(
            lease,
            holder=self._identity,
            duration_s=self._duration_s,
            acquired_at=lease.acquired_at if mine else wall,
            renewed_at=wall,
            transitions=lease.transitions if mine else lease.transitions + 1,
            version="" if self._gone else lease.version,
        )

    def won(self, lease: LeaseObject, sent_at_s: float) -> None:
        """Record that a bid succeeded."""
        self._lease, self._gone = lease, False
        self._changed_at_s = sent_at_s
        self._leads_until_s = sent_at_s + self._deadline_s

    def resigned(self, wall: datetime) -> LeaseObject | None:
        """Stop leading; return the released Lease to write, or None if this replica is not the holder."""
        self._leads_until_s = NEVER
        if not self.holds or self._lease is None:
            return None
        return replace(self._lease, holder="", duration_s=1, renewed_at=wall)
