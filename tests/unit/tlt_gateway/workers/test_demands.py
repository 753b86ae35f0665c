"""Time is virtual."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from tlt_common.domain.fleet import WatchDemand
from tlt_gateway.workers.demands import PACE_S, SHARED_PACE_S, Demands

pytestmark = pytest.mark.looptime


class Queue:
    def __init__(self) -> None:
        self.length = 0
        self.demands = Demands("g", lambda: self.length)

    def set(self, length: int) -> None:
        self.length = length
        self.demands.changed()


async def sent(messages: AsyncGenerator[WatchDemand, None]) -> tuple[int, float]:
    """Return the next demand, and the seconds until it was sent."""
    started_s = asyncio.get_running_loop().time()
    message = await anext(messages)
    return message.demand, round(asyncio.get_running_loop().time() - started_s, 6)


async def test_a_demand_above_the_granted_slots_is_told_at_once() -> None:
    queue = Queue()
    messages = queue.demands.messages()
    assert await sent(messages) == (0, 0)
    queue.demands.granted(4, shared=True)
    queue.set(5)
    assert await sent(messages) == (5, 0)
    queue.set(6)
    assert await sent(messages) == (6, 0)
    await messages.aclose()


@pytest.mark.parametrize(("shared", "pace_s"), [(False, PACE_S), (True, SHARED_PACE_S)])
async def test_a_change_within_the_slots_may_wait(shared: bool, pace_s: float) -> None:
    queue = Queue()
    messages = queue.demands.messages()
    queue.demands.granted(8, shared=shared)
    await anext(messages)
    queue.set(3)
    assert await sent(messages) == (3, pace_s)
    queue.set(0)
    assert await sent(messages) == (0, pace_s)
    await messages.aclose()


async def test_a_gateway_that_used_slots_it_is_no_longer_granted_tells_so_at_once() -> None:
    queue = Queue()
    messages = queue.demands.messages()
    queue.demands.granted(8, shared=True)
    await anext(messages)
    queue.set(3)
    queue.demands.granted(0, shared=True)
    assert await sent(messages) == (3, 0)
    await messages.aclose()


async def test_asking_sends_the_serial_to_wait_for() -> None:
    queue = Queue()
    messages = queue.demands.messages()
    await anext(messages)
    serial = queue.demands.ask()
    assert (await anext(messages)).serial == serial == queue.demands.serial
    await messages.aclose()
