"""What the measuring side asks of the coordinator, from programs that have no event loop."""

import asyncio
from collections.abc import Mapping

from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 10.0


async def fleet_at(address: str) -> Fleet:
    """
    Ask how the fleet is.

    Raises:
        UnavailableError: The coordinator is not there.
    """
    async with connect(address) as channel:
        with translated():
            return wire.fleet_from_pb(await wire.Stub(channel).GetFleet(wire.pb.GetFleetRequest(), timeout=CALL_S))


async def lend(address: str, *, enabled: bool) -> None:
    """Turn lending on or off."""
    async with connect(address) as channel:
        with translated():
            await wire.Stub(channel).SetLending(wire.pb.SetLendingRequest(enabled=enabled), timeout=CALL_S)


class Ledger:
    """Worker-seconds by state between two looks."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._seen: Mapping[WorkerState, float] = {}
        self.drafter_version = 0
        """Of the drafter that all workers had at the last look."""
        self.since()

    def since(self) -> dict[str, float]:
        """Seconds since the last look, summed over workers."""
        fleet = asyncio.run(fleet_at(self._address))
        now: dict[WorkerState, float] = {}
        for account in fleet.workers:
            for state, seconds in account.seconds.items():
                now[state] = now.get(state, 0.0) + seconds
        passed = {state.value: seconds - self._seen.get(state, 0.0) for state, seconds in now.items()}
        self._seen = now
        self.drafter_version = min((account.status.drafter_version for account in fleet.workers), default=0)
        return passed

    def lend(self, *, enabled: bool) -> None:
        """Turn lending on or off."""
        asyncio.run(lend(self._address, enabled=enabled))
