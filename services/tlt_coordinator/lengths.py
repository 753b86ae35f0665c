"""Lengths of running and finished requests, from gateways' reports. Pure: callers pass the time."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tlt_common.load import GatewayLoad, WorkerLoad


class _Report(NamedTuple):
    load: GatewayLoad
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedLengths:
    """Ended responses with the same bit length of their number of tokens."""

    bits: int
    count: int
    cut: int
    """Those of them that a cap or an abort ended."""


class ReportedLengths:
    """The last load of each gateway. A gateway that has not reported for `stale_s` no longer counts."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._reports: dict[str, _Report] = {}
        self._finished: Counter[int] = Counter()
        self._cut: Counter[int] = Counter()

    def report(self, gateway_id: str, load: GatewayLoad, now_s: float) -> None:
        """Record the running requests of a gateway."""
        self._finished.update(length.bit_length() for length in (*load.ended, *load.cut))
        self._cut.update(length.bit_length() for length in load.cut)
        self._reports[gateway_id] = _Report(load, now_s)

    def running(self, now_s: float) -> bool:
        """Whether any gateway runs requests."""
        return any(report.load.workers for report in self._counted(now_s).values())

    def loads(self, now_s: float) -> list[WorkerLoad]:
        """Return the requests of all gateways at all workers."""
        return [worker for report in self._counted(now_s).values() for worker in report.load.workers]

    @property
    def finished(self) -> list[FinishedLengths]:
        """Lengths of responses that ended since `begin_step`, by power of two."""
        return [
            FinishedLengths(bits=bits, count=count, cut=self._cut[bits])
            for bits, count in sorted(self._finished.items())
        ]

    def begin_step(self) -> None:
        """Start counting lengths."""
        self._finished.clear()
        self._cut.clear()

    def _counted(self, now_s: float) -> dict[str, _Report]:
        self._reports = {
            gateway_id: report for gateway_id, report in self._reports.items() if now_s - report.at_s < self._stale_s
        }
        return self._reports


def counted(loads: Iterable[WorkerLoad]) -> Counter[tuple[int, int]]:
    """Return running requests by cap and bits of generated tokens."""
    counts = Counter[tuple[int, int]]()
    for load in loads:
        for of in load.running:
            for bits, count in enumerate(of.counts):
                if count:
                    counts[of.cap, bits] += count
    return counts
