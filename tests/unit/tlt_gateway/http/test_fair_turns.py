"""Callers take turns at what serves one at a time."""

import asyncio

from tlt_gateway.http.resident.fair_turns import FairTurns


async def test_a_caller_does_not_wait_behind_all_that_another_asked() -> None:
    turns, served = FairTurns(), list[str]()

    async def ask(owner: str) -> None:
        async with turns.turn(owner):
            await asyncio.sleep(0)
            served.append(owner)

    async with asyncio.TaskGroup() as asking:
        for _ in range(20):
            asking.create_task(ask("many"))
        await asyncio.sleep(0)
        asking.create_task(ask("one"))
    assert served.index("one") <= 2
    assert len(served) == 21


async def test_whoever_leaves_takes_no_turn_and_leaves_it_to_others() -> None:
    turns, served = FairTurns(), list[int]()

    async def ask(number: int) -> None:
        async with turns.turn("a"):
            served.append(number)
            await asyncio.sleep(0)

    first = asyncio.ensure_future(ask(0))
    rest = [asyncio.ensure_future(ask(number)) for number in range(1, 6)]
    await asyncio.sleep(0)
    rest[0].cancel()
    rest[2].cancel()
    await first
    rest[1].cancel()  # its turn has just come
    await asyncio.wait(rest)
    assert served in ([0, 4, 5], [0, 2, 4, 5])
    async with turns.turn("b"):
        pass
