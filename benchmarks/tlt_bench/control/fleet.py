"""The simulated fleets, and the figures of one."""

from dataclasses import dataclass

SIZES = (128, 1024, 10_240)
MAX_STREAMS = 1024
"""Workers with a gRPC stream of their own, at most: more do not fit on the machine beside the coordinator."""
MAX_PROBES = 256
REPORT_EVERY_S = 1.0
ASK_EVERY_S = 8.0
"""Seconds between two questions of a trainer for the newest drafter."""
GATEWAYS = 2
WARM_S = 6.0
MEASURED_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetShape:
    """How the workers of a fleet reach the coordinator."""

    workers: int
    streams: int
    """Workers in another process, each with its own connection and stream."""
    probes: int
    """Workers in the coordinator's process that take leases and their device back, and time the answer."""

    @property
    def direct(self) -> int:
        """Workers in the coordinator's process, probes included."""
        return self.workers - self.streams


def shape_of(workers: int) -> FleetShape:
    """Return the shape of a fleet of this size."""
    probes = min(MAX_PROBES, workers // 4)
    return FleetShape(workers=workers, streams=min(MAX_STREAMS, workers - probes), probes=probes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One fleet's figures."""

    decisions_ms: tuple[float, ...]
    """From the report of a worker that took its device back to the revocation of its lease; sorted."""
    cpu_share: float
    """CPU seconds of the coordinator's process per second."""
    rss_mib: float
    connected: int
    """Workers that were connected at the end."""

    @property
    def p99_ms(self) -> float:
        return self.decisions_ms[len(self.decisions_ms) * 99 // 100]
