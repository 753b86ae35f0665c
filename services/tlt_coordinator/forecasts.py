"""
What gateways report of running requests: how long those of the fleet will run, and the tail that gateways share. Pure:
times come from the caller.
"""

from math import inf
from typing import NamedTuple

from tlt_common.forecast import LengthHistory, TailView, last_end
from tlt_common.forecast.load import GatewayLoad, TailReport

FRESH_S = 2.0
"""Seconds after which a gateway's report is too old for a view of the tail."""
VIEW_S = 1.0
"""Seconds between two views: time for the moves of one to be reported before the next."""


class _Report(NamedTuple):
    load: GatewayLoad
    at_s: float


class Forecasts:
    """The last load of each gateway; one that has not reported for `stale_s` no longer counts."""

    def __init__(self, stale_s: float) -> None:
        self._stale_s = stale_s
        self._reports: dict[str, _Report] = {}
        self._history = LengthHistory()
        self._view = TailView(serial=0, workers=(), requests=())
        self._view_s = -inf

    def report(self, gateway_id: str, load: GatewayLoad, now_s: float) -> None:
        """Record what a gateway runs."""
        for length in load.ended:
            self._history.add(length, ended=True)
        for length in load.cut:
            self._history.add(length, ended=False)
        self._reports[gateway_id] = _Report(load, now_s)
        self._look(now_s)

    def view(self, now_s: float) -> tuple[TailView, float] | None:
        """Return the latest view of the tail and its age, in seconds; None if gateways do not know it, or did not."""
        if not self._view.serial or now_s - self._view_s > FRESH_S:
            return None
        return self._view, now_s - self._view_s

    def running(self, now_s: float) -> dict[tuple[int, int], int]:
        """Return the running requests of the fleet by cap and bits of generated tokens."""
        found: dict[tuple[int, int], int] = {}
        for report in self._counted(now_s).values():
            for worker in report.load.workers:
                for of in worker.running:
                    for bits, count in enumerate(of.counts):
                        if count:
                            found[of.cap, bits] = found.get((of.cap, bits), 0) + count
        return found

    def longest_left(self, levels: tuple[float, ...], now_s: float) -> list[float] | None:
        """
        Return the tokens until all running requests have ended with each of these probabilities; None while too few
        lengths are known. Without what gateways know of prompts, so it is wider than their forecasts.
        """
        running = self.running(now_s)
        curve = self._history.curve([(_tokens_of(bits), count) for (_, bits), count in running.items()])
        if curve is None:
            return None

        def all_ended(tokens: float) -> float:
            chance = 1.0
            for (cap, bits), count in running.items():
                had = _tokens_of(bits)
                alive = curve.survival(had)
                if had + tokens < cap and alive > 0.0:
                    chance *= (1.0 - curve.survival(had + tokens) / alive) ** count
            return chance

        most = max((max(0, cap - _tokens_of(bits)) for cap, bits in running), default=0)
        return [last_end([all_ended], level=level, within_s=float(most)) for level in levels]

    def _look(self, now_s: float) -> None:
        """Make a new view if all gateways have told theirs, and the last one is old enough."""
        if self._view.serial and now_s - self._view_s < VIEW_S:
            return
        tails = list[tuple[str, TailReport]]()
        for gateway_id, report in sorted(self._counted(now_s).items()):
            tail = report.load.tail
            if tail is None or not tail.is_settled or now_s - report.at_s > FRESH_S or report.at_s <= self._view_s:
                return
            tails.append((gateway_id, tail))
        workers = next((tail.workers for _, tail in tails if tail.workers), ())
        requests = tuple(request for _, tail in tails for request in tail.requests)
        self._view = TailView(serial=self._view.serial + 1, workers=workers, requests=requests)
        self._view_s = now_s

    def _counted(self, now_s: float) -> dict[str, _Report]:
        self._reports = {
            gateway_id: report for gateway_id, report in self._reports.items() if now_s - report.at_s < self._stale_s
        }
        return self._reports


def _tokens_of(bits: int) -> int:
    """Return the middle of the numbers with so many bits."""
    return 3 << bits >> 2
