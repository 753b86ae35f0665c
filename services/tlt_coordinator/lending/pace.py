"""
Adapts the interval of reports and renewals to the size of the fleet. Pure.

What a coordinator receives and sends without a change must not grow with the fleet: at a report per worker and second,
messages alone fill its event loop at a few thousand workers, and decisions wait behind them. Changes are reported at
once at any pace.
"""

from math import ceil

from tlt_coordinator.config import LendingPolicy

REPORTS_PER_S = 1024
"""Reports without a change that a fleet sends per second, at most; as many leases are renewed. `tlt bench control`
measures what they cost."""

FASTEST_S = 1.0
"""Interval of workers that were not told another, in seconds."""


class Pace:
    """
    The interval of reports and renewals.

    It never gets shorter: workers learn of a change one by one, and none may be taken for silent because it has not
    heard of it yet. A coordinator that starts anew begins with FASTEST_S, as every new stream does.
    """

    def __init__(self, policy: LendingPolicy) -> None:
        self._policy = policy
        self._report_every_s = FASTEST_S

    @property
    def report_every_s(self) -> float:
        """Seconds between two reports of a worker without changes."""
        return self._report_every_s

    def fit(self, workers: int) -> None:
        """Slow down if this many workers are connected and would report too often."""
        needed_s = float(ceil(workers / REPORTS_PER_S))
        if needed_s > self._report_every_s:
            self._report_every_s = needed_s
            lease_ttl_s = max(self._policy.lease_ttl_s, 3 * needed_s)
            self._policy = self._policy.model_copy(update={"lease_ttl_s": lease_ttl_s})

    @property
    def policy(self) -> LendingPolicy:
        """The policy, with leases that are renewed no more often than workers report."""
        return self._policy

    def silence_s(self, configured_s: float) -> float:
        """Return how long a worker may be silent, if it may be this long while it reports every FASTEST_S."""
        return configured_s + self._report_every_s - FASTEST_S
