"""The gateways that watch this worker: sends each the worker's state and its share of the slots."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Hashable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from math import ceil, inf
from typing import TypeVar

from tlt_common.aio import Signal
from tlt_common.domain.arm.rounds import NO_ROUNDS, WorkedRounds
from tlt_common.domain.fleet import WatchDemand, WatchReport, WorkerInfo
from tlt_common.domain.pause import Pause
from tlt_common.telemetry.log import get_logger
from tlt_worker.requests.kept import Kept

log = get_logger(__name__)

HEARTBEAT_S = 1.0
"""Maximum seconds between two messages to a gateway, which takes silence for a sign that the worker hangs."""
COUNT_S = 0.25
"""Seconds after which a changed number of running requests is told; every other change is told at once."""


NO_DEMAND = WatchDemand(gateway_id="", demand=0)


Key = TypeVar("Key", bound=Hashable)


@dataclass(eq=False, slots=True)
class _Watcher:
    """Stream of one gateway. After a lost connection, a gateway's old stream may outlive its new one."""

    demand: WatchDemand = NO_DEMAND


class Watchers:
    """
    Args:
        info: Returns the worker's current state.
        kept: Responses whose stream has broken.
        rounds: Returns the last report of rounds.
    """

    def __init__(
        self,
        info: Callable[[], WorkerInfo],
        kept: Kept | None = None,
        *,
        rounds: Callable[[], WorkedRounds] = lambda: NO_ROUNDS,
    ) -> None:
        self._info = info
        self._rounds = rounds
        self._kept = kept or Kept()
        self._kept.changed = self.changed
        self._watchers: list[_Watcher] = []
        self._pause = Pause()
        self._pause_until_s = 0.0
        self._changed = Signal()
        self._closed = False

    @property
    def pause(self) -> Pause:
        """Return the latest pause that a gateway sent, in whole seconds, so that it is sent again once a second."""
        left_s = self._pause_until_s - asyncio.get_running_loop().time() if self._pause.holds else 0.0
        return replace(self._pause, left_s=float(ceil(left_s)) if 0 < left_s < inf else max(0.0, left_s))

    def changed(self) -> None:
        """Notify all gateways now. Other changes are sent within `COUNT_S`."""
        self._changed.set()

    def close(self) -> None:
        """End all watches, so that a stopping server need not wait for them."""
        self._closed = True
        self._changed.set()

    async def watch(self, demands: AsyncGenerator[WatchDemand, None]) -> AsyncGenerator[WatchReport, None]:
        """Yield the messages to one gateway until it hangs up. Closing the iterator ends the watch."""
        watcher = _Watcher()
        self._watchers.append(watcher)
        listening = asyncio.ensure_future(self._listen(watcher, demands))
        try:
            async with aclosing(self._reports(watcher, listening)) as reports:
                async for report in reports:
                    yield report
        finally:
            listening.cancel()
            self._watchers.remove(watcher)
            self._changed.set()
            log.info("gateway_left", gateway=watcher.demand.gateway_id)

    async def _listen(self, watcher: _Watcher, demands: AsyncGenerator[WatchDemand, None]) -> None:
        async for demand in demands:
            watcher.demand = demand
            if demand.pause.epoch > self._pause.epoch:
                self._pause = demand.pause
                self._pause_until_s = asyncio.get_running_loop().time() + demand.pause.left_s
            self._changed.set()

    async def _reports(self, watcher: _Watcher, listening: asyncio.Future[None]) -> AsyncGenerator[WatchReport, None]:
        loop = asyncio.get_running_loop()
        told, told_at_s = None, 0.0
        while not (listening.done() or self._closed):
            seen, now_s = self._changed.count, loop.time()
            report = self._report(watcher)
            due = told is None or now_s - told_at_s >= HEARTBEAT_S
            if due or _uncounted(report) != _uncounted(told) or (report != told and now_s - told_at_s >= COUNT_S):
                yield report
                told, told_at_s = report, now_s
            try:
                async with asyncio.timeout(COUNT_S):
                    await self._changed.beyond(seen)
            except TimeoutError:
                continue
        if listening.done():
            listening.result()

    def _report(self, watcher: _Watcher) -> WatchReport:
        info = self._info()
        shares = max_min(info.max_running, {watcher: watcher.demand.demand for watcher in self._watchers})
        return WatchReport(
            info=info,
            slots=shares[watcher],
            serial=watcher.demand.serial,
            pause=self.pause,
            kept=self._kept.keys,
            rounds=self._rounds(),
        )


def _uncounted(report: WatchReport | None) -> WatchReport | None:
    """Return the report without the number of running requests and the rounds, which change constantly."""
    return report and replace(report, info=replace(report.info, running=0), rounds=NO_ROUNDS)


def max_min(slots: int, demands: Mapping[Key, int]) -> dict[Key, int]:
    """
    Divide slots max-min fairly: no gateway gets more than it demands while another one with a higher demand gets less.

    Slots that nobody demands are divided equally, so that the first request of an idle gateway starts without asking.
    The shares add up to `slots`, except that every gateway with a demand gets at least one: with fewer slots than
    gateways, requests queue in the engine. Where shares cannot be equal, earlier keys get one more.

    Args:
        slots: Slots to divide, at least 0.
        demands: Requests that each gateway would run now, at least 0.
    """
    shares: dict[Key, int] = {}
    left = slots
    by_demand = sorted(demands, key=lambda key: demands[key])  # stable: ties stay in the caller's order
    for index, key in enumerate(by_demand):
        share = min(demands[key], max(1, -(-left // (len(by_demand) - index))))
        shares[key] = share
        left = max(0, left - share)
    for index, key in enumerate(demands):
        spare = -(-left // (len(demands) - index))
        shares[key] += spare
        left -= spare
    return shares
