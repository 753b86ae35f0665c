"""Demand messages: how many requests a gateway would send to a worker it watches."""

import asyncio
from collections.abc import AsyncGenerator, Callable

from tlt_common.domain.fleet import WatchDemand
from tlt_common.domain.pause import Pause

PACE_S = 1.0
"""Maximum delay of a change that the worker need not act on: the gateway has all slots anyway."""
SHARED_PACE_S = 0.1
"""The same while other gateways watch the worker: they wait for the slots this one no longer needs."""


class Demands:
    """
    The messages of one watch. A demand above the granted slots is sent at once, any other change within `PACE_S`.

    Args:
        demand: Returns the requests running on the worker and queued here; it need not exceed the worker's slots.
        pause: Returns the pause of the fleet.
    """

    def __init__(self, gateway_id: str, demand: Callable[[], int], pause: Callable[[], Pause] = Pause) -> None:
        self._gateway_id = gateway_id
        self._demand = demand
        self._pause = pause
        self._told = 0
        self._serial = 0
        self._slots = 0
        self._shared = False
        self._urgent = asyncio.Event()

    @property
    def serial(self) -> int:
        """Serial of the last message."""
        return self._serial

    def granted(self, slots: int, *, shared: bool) -> None:
        """Record the granted slots and whether other gateways have a share."""
        self._slots, self._shared = slots, shared
        self.changed()

    def changed(self) -> None:
        """Record that the demand may have changed. Cheap enough to call for every request."""
        demand = self._demand()
        if demand > self._slots and demand != self._told:
            self._urgent.set()

    def ask(self) -> int:
        """Send a message now, which the worker answers immediately; return the serial of the answer to wait for."""
        self._urgent.set()
        return self._serial + 1

    async def messages(self) -> AsyncGenerator[WatchDemand, None]:
        """Yield the messages of one stream."""
        while True:
            self._urgent.clear()
            self._told, self._serial = self._demand(), self._serial + 1
            yield WatchDemand(gateway_id=self._gateway_id, demand=self._told, serial=self._serial, pause=self._pause())
            while not (await self._is_urgent() or self._demand() != self._told):
                pass

    async def _is_urgent(self) -> bool:
        try:
            async with asyncio.timeout(SHARED_PACE_S if self._shared else PACE_S):
                await self._urgent.wait()
        except TimeoutError:
            return False
        return True
