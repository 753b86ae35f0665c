"""Gateways' reports of queued requests and pauses. Pure: callers pass the time."""

from typing import NamedTuple

QUEUE_STALE_S = 5.0
"""Seconds without a report after which a gateway's queue is ignored: ten of the reports that a gateway sends when
nothing changes. One that died with a full queue must not stop lending."""


class _Report(NamedTuple):
    queued: int
    at_s: float
    paused_until_s: float


class Queues:
    """The last report of each gateway. A gateway that has not reported for `stale_s` no longer counts."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._reports: dict[str, _Report] = {}
        self._called_back = 0

    def report(self, gateway_id: str, queued: int, now_s: float, *, pause_left_s: float = 0.0) -> None:
        """Record the queue depth of a gateway, and the seconds left of its pause."""
        self._reports[gateway_id] = _Report(queued, now_s, now_s + pause_left_s)
        self._called_back = 0

    def queued(self, now_s: float) -> int:
        """Return the number of requests queued at all gateways that still report; 0 if none does."""
        self._forget_stale(now_s)
        return sum(report.queued for report in self._reports.values())

    def called_back(self) -> None:
        """Record that a lease was revoked for a queued request."""
        self._called_back += 1

    def to_call_back(self, now_s: float) -> int:
        """Return the number of leases to revoke for queued requests, beyond those revoked since a report."""
        return max(0, self.queued(now_s) - self._called_back)

    def pause_left_s(self, now_s: float) -> float:
        """Return the seconds until no reporting gateway is paused."""
        self._forget_stale(now_s)
        return max((max(0.0, report.paused_until_s - now_s) for report in self._reports.values()), default=0.0)

    def _forget_stale(self, now_s: float) -> None:
        self._reports = {
            gateway_id: report for gateway_id, report in self._reports.items() if now_s - report.at_s < self._stale_s
        }
