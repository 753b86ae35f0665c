"""The simulated fleets, and the figures of one."""

from dataclasses import dataclass

SIZES = (128, 1024, 10_240)
STREAMS_PER_CONNECTION = 32
"""Workers that share a connection: with one each, the simulation would take the memory of the machine."""
MAX_PROBES = 256
REPORT_EVERY_S = 1.0
"""Seconds between two reports until the coordinator sets another interval."""
GATEWAYS = 2
WARM_S = 6.0
MEASURED_S = 15.0
WAVES = 3
"""How often all leases are recalled, and all workers lent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """The workers of a fleet. Each holds a gRPC stream of its own; none runs in the coordinator's process."""

    workers: int
    probes: int
    """Workers that take their device back a second or so after each lease; a process of their own times the answer."""

    @property
    def crowd(self) -> int:
        """Workers that hold the leases they get."""
        return self.workers - self.probes


def shape_of(workers: int) -> FleetShape:
    """Return the shape of a fleet of this size."""
    return FleetShape(workers=workers, probes=min(MAX_PROBES, workers // 4))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Times of one kind, in milliseconds."""

    count: int
    median: float
    p99: float
    max: float


def spread_of(times: list[float]) -> Spread:
    """
    Return the spread of times.

    Raises:
        ValueError: There are none.
    """
    if not times:
        raise ValueError("nothing was timed")
    ordered = sorted(times)
    return Spread(
        count=len(ordered), median=ordered[len(ordered) // 2], p99=ordered[len(ordered) * 99 // 100], max=ordered[-1]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFleet:
    """One fleet's figures."""

    decision_ms: Spread
    """In the coordinator: from the report of a worker that took its device back, as gRPC hands it over, to the
    revocation of its lease, as gRPC gets it. Includes waiting for all else that the event loop does."""
    roundtrip_ms: Spread
    """The same, as seen by the worker: with both messages' way through gRPC, and the delay of both processes."""
    loop_lag_ms: Spread
    """How late the coordinator's event loop runs a timer: what a report waits before it is handled."""
    recall_first_ms: Spread
    """From a gateway's report of a queued request to the first revocation."""
    recall_all_ms: Spread
    """To the last: every lease of the fleet is revoked."""
    lend_first_ms: Spread
    """From the report of an empty queue to the first lease."""
    lend_all_ms: Spread
    """To the last: every worker of the crowd is lent."""
    reports_per_s: float
    cpu_share: float
    """CPU seconds of the coordinator's process per second, without the waves."""
    waiting_share: float
    """Seconds per second in which the event loop could run, but waited for a core that other processes had."""
    rss_mib: float
    connected: int
    """Workers that were connected at the end."""
    load: float
    """Load average of the machine at the end."""
