"""What gateways agree on about a pause. Time is virtual."""

import asyncio
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import Epoch
from tlt_common.domain.pause import Pause
from tlt_gateway.workers.fleet_pause import FleetPause

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


def fleet_pause(max_s: float | None, told: list[tuple[bool, bool]] | None = None) -> FleetPause:
    """Return a pause that records whether it holds, and whether it expired."""
    made = FleetPause(max_s, lambda expired: told.append((made.holds, expired)) if told is not None else None)
    return made


async def test_a_pause_that_nobody_ends_expires() -> None:
    told = list[tuple[bool, bool]]()
    pause = fleet_pause(60.0, told)
    pause.begin()
    assert pause.holds
    await asyncio.sleep(59)
    assert pause.current.left_s == pytest.approx(1.0)
    await asyncio.sleep(2)
    assert not pause.holds
    assert told == [(True, False), (False, True)]
    assert pause.current.left_s == 0.0


async def test_a_repeated_pause_is_renewed() -> None:
    pause = fleet_pause(60.0)
    first = pause.begin()
    await asyncio.sleep(50)
    second = pause.begin()
    assert second.epoch > first.epoch
    await asyncio.sleep(50)
    assert pause.holds
    pause.end()
    await asyncio.sleep(3600)
    assert not pause.holds


async def test_a_pause_may_have_no_limit() -> None:
    pause = fleet_pause(None)
    assert pause.begin().left_s == math.inf
    await asyncio.sleep(1e6)
    assert pause.holds


async def test_what_is_heard_late_changes_nothing() -> None:
    pause = fleet_pause(60.0)
    begun = pause.begin()
    ended = pause.end()
    pause.hear(begun)
    assert not pause.holds
    other = fleet_pause(60.0)
    other.hear(begun)
    assert other.holds
    other.hear(ended)
    other.hear(begun)
    assert not other.holds


async def test_a_gateway_that_restarts_hears_how_long_is_left() -> None:
    first = fleet_pause(60.0)
    first.begin()
    await asyncio.sleep(20)
    restarted = fleet_pause(60.0)
    restarted.hear(first.current)
    assert restarted.holds
    await asyncio.sleep(39)
    assert restarted.holds
    await asyncio.sleep(2)
    assert not restarted.holds
    assert restarted.end().epoch > first.current.epoch


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans(), st.integers(0, 2)), max_size=20))
def test_gateways_that_hear_one_another_in_any_order_agree(steps: Sequence[tuple[int, bool, int]]) -> None:
    async def run() -> None:
        gateways = [fleet_pause(60.0) for _ in range(3)]
        told: list[Pause] = [Pause(epoch=Epoch(0))]
        for actor, pauses, hearer in steps:
            told.append(gateways[actor].begin() if pauses else gateways[actor].end())
            gateways[hearer].hear(told[len(told) // 2])
        for gateway in gateways:
            for pause in reversed(told):
                gateway.hear(pause)
        assert len({(gateway.holds, gateway.current.epoch) for gateway in gateways}) == 1

    asyncio.run(run())
