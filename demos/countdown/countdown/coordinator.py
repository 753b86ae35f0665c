"""Coordinator calls needed for the measurement, for programs without an event loop."""

import asyncio
import time
from collections.abc import Mapping

from tlt_common.domain.fleet import Fleet, WorkerState
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import coordinator as wire

CALL_S = 10.0
LOOK_S = 0.05
ALL_CHANGES = 4096
RETURN_S = 5.0
"""A worker's ledger is final once its device is back: until then, what its trainer computed is not counted yet."""


async def fleet_at(address: str) -> Fleet:
    """
    Return the state of the fleet.

    Raises:
        UnavailableError: The coordinator is unreachable.
    """
    async with connect(address) as channel:
        return await _fleet(wire.Stub(channel))


async def lend(address: str, *, enabled: bool) -> None:
    """Enable lending; or disable it, and wait until all workers are back, for RETURN_S at most."""
    async with connect(address) as channel:
        stub = wire.Stub(channel)
        with translated():
            await stub.SetLending(wire.pb.SetLendingRequest(enabled=enabled), timeout=CALL_S)
        ends = time.monotonic() + RETURN_S
        while not enabled and time.monotonic() < ends:
            if not any(account.status.lent for account in (await _fleet(stub)).workers):
                return
            await asyncio.sleep(LOOK_S)


async def _fleet(stub: wire.AsyncStub) -> Fleet:
    with translated():
        return wire.fleet_from_pb(await stub.GetFleet(wire.pb.GetFleetRequest(max_changes=ALL_CHANGES), timeout=CALL_S))


class Ledger:
    """Measures worker-seconds by state between two calls."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._seen: Mapping[WorkerState, float] = {}
        self.drafter_version = 0
        """Oldest drafter version among the workers at the last call; 0 if a worker has none."""
        self.since()

    def since(self) -> dict[str, float]:
        """Return the worker-seconds by state since the last call, summed over workers."""
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
        """Enable or disable lending."""
        asyncio.run(lend(self._address, enabled=enabled))
