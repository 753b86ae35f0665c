import asyncio

import pytest

from tlt_common.errors import DrainingError
from tlt_common.rpc.drain import Drain

pytestmark = pytest.mark.looptime


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def one_call(drain: Drain, method: str, lasts_s: float) -> None:
    with drain.call(method):
        await asyncio.sleep(lasts_s)


async def test_what_runs_is_waited_for_and_no_longer() -> None:
    drain = Drain("Generate")
    async with asyncio.TaskGroup() as calls:
        calls.create_task(one_call(drain, "Generate", 3.0))
        calls.create_task(one_call(drain, "Generate", 5.0))
        calls.create_task(one_call(drain, "Watch", 50.0))
        await asyncio.sleep(1.0)
        assert drain.running == 2
        assert await drain.complete(60.0)
        assert now_s() == 5.0


async def test_patience_ends() -> None:
    drain = Drain("Generate")
    async with asyncio.TaskGroup() as calls:
        calls.create_task(one_call(drain, "Generate", 50.0))
        await asyncio.sleep(1.0)
        assert not await drain.complete(10.0)
        assert now_s() == 11.0


async def test_new_calls_are_refused_from_the_beginning_and_others_answered_until_the_end() -> None:
    drain = Drain("Generate")
    async with asyncio.TaskGroup() as calls:
        calls.create_task(one_call(drain, "Generate", 5.0))
        await asyncio.sleep(1.0)
        draining = calls.create_task(drain.complete(60.0))
        await asyncio.sleep(1.0)
        with pytest.raises(DrainingError):
            await one_call(drain, "Generate", 0.0)
        await one_call(drain, "GetServerInfo", 0.0)
        assert await draining


async def test_a_call_that_fails_is_not_waited_for() -> None:
    drain = Drain("Generate")
    with pytest.raises(ValueError, match="no"), drain.call("Generate"):
        raise ValueError("no")
    assert await drain.complete(60.0)
    assert now_s() == 0.0


async def test_who_wants_to_know_is_told_at_once_and_cancelled_at_the_end() -> None:
    drain = Drain("Generate")
    told: list[tuple[str, float]] = []

    async def leave(within_s: float) -> None:
        told.append(("begin", now_s()))
        try:
            await asyncio.sleep(within_s)
        finally:
            told.append(("end", now_s()))

    drain.when_begun(leave)
    async with asyncio.TaskGroup() as calls:
        calls.create_task(one_call(drain, "Generate", 5.0))
        await asyncio.sleep(1.0)
        await drain.complete(60.0)
    assert told == [("begin", 1.0), ("end", 5.0)]
