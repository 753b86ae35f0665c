"""
The lease of a device and its expiry. Pure: callers pass the time.

A lease that has ended is not accepted again, so that late, repeated or reordered orders have no effect.
"""

from math import inf

from tlt_common.domain.fleet import Lease, Revocation
from tlt_common.domain.ids import Epoch


class DeviceLease:
    """The leases of one device."""

    def __init__(self) -> None:
        self._lease: Lease | None = None
        self._expires_at_s = inf
        self._ended = Epoch(0)  # leases of this epoch and older ones have ended
        self._retired = False

    @property
    def epoch(self) -> Epoch:
        """Epoch of the current lease; 0 means none."""
        return self._lease.epoch if self._lease else Epoch(0)

    @property
    def expires_at_s(self) -> float:
        """Expiry of the current lease unless it is renewed; infinite without one."""
        return self._expires_at_s

    def offer(self, lease: Lease, now_s: float, *, wanted: bool) -> bool | None:
        """
        Accept a lease or its renewal.

        Args:
            lease: The offer.
            now_s: Current time.
            wanted: Whether the device is free and its trainer has something to learn.

        Returns:
            Whether it was accepted; None if it is outdated and needs no answer.
        """
        if lease.epoch <= self._ended or lease.epoch < self.epoch:
            return None
        if self._retired or not wanted:
            self._ended = lease.epoch
            return False
        self._lease, self._expires_at_s = lease, now_s + lease.ttl_s
        return True

    def revoked_by(self, revocation: Revocation) -> bool:
        """Record that this epoch and older ones have ended; return whether the current lease must end."""
        self._ended = max(self._ended, revocation.epoch)
        return self.epoch <= revocation.epoch

    def retire(self) -> None:
        """Decline further leases."""
        self._retired = True

    def end(self) -> bool:
        """End the current lease; return whether there was one."""
        if self._lease is None:
            return False
        self._ended = max(self._ended, self._lease.epoch)
        self._lease, self._expires_at_s = None, inf
        return True
