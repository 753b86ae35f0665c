"""Small asyncio helpers."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from itertools import islice

import pytest

from tlt_common.aio import Pieces, backoff, one_ahead


async def numbers(count: int, begun: list[int]) -> AsyncIterator[int]:
    for number in range(count):
        begun.append(number)
        await asyncio.sleep(0)
        yield number


async def test_one_ahead_awaits_the_next_item_while_one_is_used() -> None:
    begun, used = list[int](), list[int]()
    async for number in one_ahead(numbers(4, begun)):
        await asyncio.sleep(0.01)
        assert begun == list(range(min(4, number + 2)))  # the next, and no more
        used.append(number)
    assert used == [0, 1, 2, 3]


async def test_one_ahead_raises_what_the_iterator_raises_after_the_items_before_it() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 1
        raise ValueError("broken")

    items = one_ahead(failing())
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="broken"):
        await anext(items)


async def test_closing_one_ahead_ends_what_is_awaited() -> None:
    ended = asyncio.Event()

    async def waiting() -> AsyncIterator[int]:
        yield 1
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with aclosing(one_ahead(waiting())) as items:
        assert await anext(items) == 1
        await asyncio.sleep(0)
    assert ended.is_set()


def test_delays_of_ten_thousand_failures_double_up_to_their_limit() -> None:
    delays = list(islice(backoff(1.0, 60.0), 10_000))
    assert all(
        0.75 * min(2.0**place, 60) <= delay <= 1.25 * min(2.0**place, 60) for place, delay in enumerate(delays[:9])
    )
    assert all(45 <= delay <= 75 for delay in delays[9:])


async def test_pieces_of_many_callers_are_done_one_in_a_pass_and_others_get_their_turn_in_between() -> None:
    pieces, passes, done = Pieces(), 0, list[int]()

    async def count() -> None:
        nonlocal passes
        while True:
            passes += 1
            await asyncio.sleep(0)

    async def work() -> None:
        for _ in range(5):
            await pieces.do(lambda: done.append(passes))

    counting = asyncio.ensure_future(count())
    async with asyncio.TaskGroup() as callers:
        for _ in range(20):
            callers.create_task(work())
    counting.cancel()
    assert len(done) == 100
    assert len(set(done)) == 100, "no two in one pass"


async def test_pieces_of_an_iterator_are_its_items_without_none() -> None:
    found = [item async for item in Pieces().each(iter([1, None, 2, None]))]
    assert found == [1, 2]


async def test_a_piece_that_fails_fails_its_caller_alone() -> None:
    pieces = Pieces()
    with pytest.raises(ZeroDivisionError):
        await pieces.do(lambda: 1 / 0)
    assert await pieces.do(lambda: 1) == 1
