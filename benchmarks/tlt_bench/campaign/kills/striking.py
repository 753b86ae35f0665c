"""Executes strikes and waits until their targets have recovered."""

import asyncio
import random
import signal
import time
from contextlib import ExitStack

from tlt_bench.campaign.kills.plan import Strike
from tlt_bench.campaign.kills.targets import FREEZE_S, HANG_S, PAUSE_S, Action, KillTarget
from tlt_bench.campaign.suite.health import eventually, serves, workers_serve
from tlt_bench.campaign.suite.load import Flight, Load
from tlt_bench.campaign.suite.processes import Victim, pids
from tlt_bench.campaign.suite.suite import Suite

GONE_S = 30.0
"""Time limit in seconds for a process to end after SIGTERM; one that ignores it is accepted."""
BACK_S = 600.0
"""Time limit in seconds for a target to serve again, including the start of an engine on a busy machine."""
MOVED_S = 60.0
"""Time limit in seconds of the measurement; a stopped engine continues afterwards."""
MEASURED_STREAMS = 4
"""Requests in flight, on all engines together, before an engine is stopped for a measurement."""
IN_TRANSIT_S = 0.5
"""Tokens that arrive this soon after a stop were on their way."""


class Striker:
    """
    Strikes the targets of a suite.

    Args:
        load: Its requests in flight show when a stalled engine's requests move.
        seed: Seed of the choice among processes of a kind.
    """

    def __init__(self, suite: Suite, load: Load, *, seed: int) -> None:
        self._suite = suite
        self._load = load
        self._random = random.Random(seed)

    async def strike(self, strike: Strike) -> float | None:
        """
        Execute a strike; return the seconds from the stop of an engine until its requests moved, if measured.

        Raises:
            LookupError: No process of this kind exists at the moment.
        """
        if not strike.target.count:
            await self._disconnect(strike.action)
            return None
        if strike.is_measured:
            await eventually(lambda: len(self._load.streams) >= MEASURED_STREAMS, within_s=BACK_S)
        with ExitStack() as resources:
            victim = self._victim(strike.target)
            resources.callback(victim.close)
            match strike.action:
                case Action.KILL:
                    victim.send(signal.SIGKILL)
                    await eventually(lambda: not victim.is_alive, within_s=GONE_S)
                case Action.TERM:
                    victim.send(signal.SIGTERM)
                    await eventually(lambda: not victim.is_alive, within_s=GONE_S)
                case Action.PAUSE | Action.HANG:
                    return await self._stop(victim, strike)
        return None

    async def until_back(self, target: KillTarget) -> bool:
        """Wait until there are as many serving processes of the kind as before; return False on timeout."""
        deadline_s = time.monotonic() + BACK_S
        while time.monotonic() < deadline_s:
            if len(self._pids(target)) >= target.count and await self._is_served(target):
                return True
            await asyncio.sleep(PAUSE_S)
        return False

    async def _is_served(self, target: KillTarget) -> bool:
        if target.group == "worker":
            return await workers_serve(self._suite)
        return not target.served_as or await serves(self._suite.services[target.served_as], "")

    def _pids(self, target: KillTarget) -> list[int]:
        return pids(self._suite.token, target.is_one)

    def _victim(self, target: KillTarget) -> Victim:
        candidates = self._pids(target)
        self._random.shuffle(candidates)
        for pid in candidates:
            if victim := Victim.held(pid):
                return victim
        raise LookupError(f"there is no {target.name} at the moment")

    async def _stop(self, victim: Victim, strike: Strike) -> float | None:
        stopped_s, flights = time.monotonic(), self._load.streams
        victim.send(signal.SIGSTOP)
        try:
            if strike.is_measured:
                return await _until_moved(flights, stopped_s)
            hold_s = PAUSE_S if strike.action is Action.PAUSE else HANG_S
            await eventually(lambda: not victim.is_alive, within_s=hold_s)
            return None
        finally:
            victim.send(signal.SIGCONT)

    async def _disconnect(self, action: Action) -> None:
        if action is Action.CUT:
            self._suite.proxy.cut()
            return
        self._suite.proxy.freeze()
        try:
            await asyncio.sleep(FREEZE_S)
        finally:
            self._suite.proxy.thaw()


async def _until_moved(flights: frozenset[Flight], stopped_s: float) -> float:
    """Wait until every request that was in flight at a stop has moved; return the seconds of the slowest."""

    def moved() -> list[float | None]:
        return [flight.moved_s(stopped_s, in_transit_s=IN_TRANSIT_S) for flight in flights]

    await eventually(lambda: None not in moved(), within_s=MOVED_S)
    return max((at_s or time.monotonic()) - stopped_s for at_s in moved())
