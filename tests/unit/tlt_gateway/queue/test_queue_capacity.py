"""Capacity of the queue: reserved before a call is validated, bounded in requests and tokens, and shared."""

import asyncio
from typing import Any

import pytest

from tlt_common.errors import InvalidRequestError, OverloadedError
from tlt_gateway.queue.queue_capacity import QueueCapacity, QueueLimits

pytestmark = pytest.mark.looptime


def capacity(free: int, *, max_queued: int = 100, max_tokens: int = 1_000_000, share: float = 1.0) -> QueueCapacity:
    limits = QueueLimits(requests=max_queued, tokens=max_tokens, owner_share=share)
    return QueueCapacity(limits, free=lambda: free, retry_after_s=2.0)


def reserved(queue: QueueCapacity, count: int = 1, *, tokens: int = 1, owner: str = "") -> Any:
    return queue.reserved(owner, requests=count, tokens=tokens, field="prompts")


async def test_a_long_queue_refuses_and_says_when_to_come_back() -> None:
    queue = capacity(1, max_queued=2)
    with reserved(queue), reserved(queue, 2) as batch:  # two in the queue and the free slot
        with pytest.raises(OverloadedError, match="3 requests are queued and 1 arrived; the maximum is 2") as refused:
            reserved(queue).__enter__()
        assert refused.value.retry_after_s == 2.0
        batch.use()
        with reserved(queue):
            pass


async def test_a_burst_is_bounded_whatever_its_calls_wait_for_before_they_queue() -> None:
    queue, entered, refused = capacity(2, max_queued=10), list[int](), list[int]()

    async def call(number: int) -> None:
        try:
            with reserved(queue):
                await asyncio.sleep(1)  # validation, or a worker's first report
                entered.append(number)
        except OverloadedError:
            refused.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(3000):
            group.create_task(call(number))
    assert (len(entered), len(refused)) == (12, 2988)
    with reserved(queue, 10):
        pass  # all of it was returned


async def test_prompts_are_bounded_by_their_tokens() -> None:
    queue = capacity(1, max_tokens=100)
    with reserved(queue, tokens=60):
        with pytest.raises(OverloadedError, match="60 tokens are queued and 41 arrived; the maximum is 100 tokens"):
            reserved(queue, tokens=41).__enter__()
        with reserved(queue, 8, tokens=40) as batch:
            for _ in range(7):
                batch.use()
            with pytest.raises(OverloadedError):  # its last sample holds the prompt
                reserved(queue, tokens=1).__enter__()
            batch.use()
            with reserved(queue, tokens=40):
                pass
    with pytest.raises(InvalidRequestError, match="have 101 tokens; the maximum is 100 per call"):
        reserved(queue, tokens=101).__enter__()
    assert queue.tokens == 0


async def test_one_owner_leaves_room_for_others() -> None:
    queue = capacity(0, max_queued=10, max_tokens=100, share=0.5)
    with reserved(queue, 5, owner="greedy"):
        with pytest.raises(OverloadedError, match="5 requests of greedy are queued"):
            reserved(queue, owner="greedy").__enter__()
        with reserved(queue, 5, tokens=50, owner="other"):
            pass
    with pytest.raises(InvalidRequestError, match="the maximum is 5"):
        reserved(queue, 6, owner="greedy").__enter__()
    with reserved(queue, 10, tokens=100):  # without tokens all callers are one
        pass


async def test_what_can_never_fit_is_refused_as_too_large_and_not_for_later() -> None:
    queue = capacity(1, max_queued=2)
    with pytest.raises(InvalidRequestError, match="makes 3 requests; the maximum is 2") as refused:
        reserved(queue, 3).__enter__()
    assert refused.value.field == "prompts"
