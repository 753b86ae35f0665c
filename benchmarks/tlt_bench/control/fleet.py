"""Simulated fleets and their figures."""

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
    """The workers of a fleet, each with its own gRPC stream and none in the coordinator's process."""

    workers: int
    probes: int
    """Workers that take their device back about a second after each lease. A separate process times the response."""

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
    """Figures of one fleet."""

    decision_ms: Spread
    """
    Time in the coordinator from the report of a worker that took its device back, as delivered by gRPC, to the
    revocation of its lease, as passed to gRPC. Includes all other work of the event loop in between.
    """
    roundtrip_ms: Spread
    """The same as seen by the worker, including gRPC's path of both messages and delays in both processes."""
    loop_lag_ms: Spread
    """Delay of a timer in the coordinator's event loop, which a report also waits."""
    recall_first_ms: Spread
    """Time from a gateway's report of a queued request to the first revocation."""
    recall_all_ms: Spread
    """Time to the last revocation, when every lease of the fleet is revoked."""
    lend_first_ms: Spread
    """Time from the report of an empty queue to the first lease."""
    lend_all_ms: Spread
    """Time to the last lease, when every worker of the crowd is lent."""
    reports_per_s: float
    cpu_share: float
    """CPU seconds of the coordinator's process per second, without the recall waves."""
    waiting_share: float
    """Seconds per second during which the event loop was runnable but waited for a core."""
    rss_mib: float
    connected: int
    """Number of connected workers at the end."""
    load: float
    """Load average of the machine at the end."""
