"""Number of requests queued at the gateways. Pure: times come from the caller."""

from typing import NamedTuple


class _Report(NamedTuple):
    queued: int
    at_s: float


class Queues:
    """The last report of each gateway; one that has not reported for `stale_s` no longer counts."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._reports: dict[str, _Report] = {}

    def report(self, gateway_id: str, queued: int, now_s: float) -> None:
        """Record the queue depth of a gateway."""
        self._reports[gateway_id] = _Report(queued, now_s)

    def queued(self, now_s: float) -> int:
        """Return the number of requests queued at all gateways that still report; 0 if none does."""
        self._reports = {
            gateway_id: report for gateway_id, report in self._reports.items() if now_s - report.at_s < self._stale_s
        }
        return sum(report.queued for report in self._reports.values())
