import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from tlt_common.domain.ids import PolicyVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import AbortedError, NotFoundError, OverloadedError, UnavailableError
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.gate import Gate
from tlt_gateway.queue.queue_capacity import QueueLimits

pytestmark = pytest.mark.looptime


UNKNOWN = 3
"""A version that is not served and never will be."""


class Seats:
    """So many slots, all alike."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.absent_since_s: float | None = None
        self.offer = 0
        """The version of all slots; requests for later ones wait for it."""

    def may_ever_run(self, prompt: Prompt) -> bool:
        return prompt.policy_version is None or prompt.policy_version <= self.offer

    def acquire(self, prompt: Prompt) -> str | None:
        if prompt.policy_version == UNKNOWN:
            raise NotFoundError("another version is served", field="prompt.policy_version")
        if not self.free or self.absent_since_s is not None or not self.may_ever_run(prompt):
            return None
        self.free -= 1
        return "slot"

    def release(self, slot: str) -> None:
        assert slot == "slot"
        self.free += 1


def queue(seats: Seats, *, max_queued: int = 100, max_tokens: int = 1_000_000, share: float = 1.0) -> Admission[str]:
    limits = QueueLimits(requests=max_queued, tokens=max_tokens, owner_share=share)
    return Admission(seats, limits=limits, worker_wait_s=60.0, retry_after_s=2.0)


def reserved(admission: Admission[str], count: int = 1, *, tokens: int = 1, owner: str = "") -> Any:
    return admission.capacity.reserved(owner, requests=count, tokens=tokens, field="prompts")


def prompt(name: str, version: int | None = None) -> Prompt:
    return Prompt(
        request_id=RequestId(name), token_ids=(1,), policy_version=None if version is None else PolicyVersion(version)
    )


async def sit(admission: Admission[str], name: str, seconds: float, order: list[str], *, first: bool = False) -> None:
    with reserved(admission) as reservation:
        async with admission.slot(prompt(name), gate=Gate(), first=first):
            reservation.use()
            order.append(name)
            await asyncio.sleep(seconds)


async def test_requests_are_seated_in_the_order_they_came() -> None:
    seats, order = Seats(2), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        for name in "abcdef":
            group.create_task(sit(admission, name, 3600.0, order))
        await asyncio.sleep(1)
        assert (order, admission.queued) == (["a", "b"], 4)
    assert order == list("abcdef")
    assert asyncio.get_running_loop().time() == 3 * 3600.0
    assert (seats.free, admission.queued) == (2, 0)


async def test_a_request_that_lost_its_worker_does_not_go_to_the_end_of_the_queue() -> None:
    order = list[str]()
    admission = queue(Seats(1))
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(sit(admission, name, 1.0, order))
        await asyncio.sleep(0)
        group.create_task(sit(admission, "moved", 1.0, order, first=True))
    assert order == ["a", "moved", "b", "c"]


async def test_a_request_that_was_assigned_a_slot_before_a_pause_does_not_start_in_it() -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        group.create_task(sit(admission, "a", 10.0, order))
        group.create_task(sit(admission, "b", 10.0, order))
        await asyncio.sleep(1)
        seats.release("slot")
        admission.pump()  # assigned; the request's task has not run yet
        admission.hold()
        await asyncio.sleep(1)
        assert (order, admission.queued, seats.free) == (["a"], 1, 1)
        admission.proceed()
    assert order == ["a", "b"]


async def test_whoever_leaves_the_queue_leaves_no_trace() -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(sit(admission, name, 10.0, order))
        gone = group.create_task(sit(admission, "gone", 10.0, order))
        group.create_task(sit(admission, "c", 10.0, order))
        await asyncio.sleep(1)
        gone.cancel()
    assert order == ["a", "b", "c"]
    assert seats.free == 1


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0.1, 10), st.booleans()), max_size=12), st.integers(1, 3))
def test_no_seat_is_lost_whenever_requests_are_cancelled(plan: list[tuple[float, float, bool]], slots: int) -> None:
    seats = Seats(slots)

    async def run() -> None:
        admission = queue(seats)
        async with asyncio.TaskGroup() as group:
            for index, (start_s, stay_s, leaves) in enumerate(plan):
                group.create_task(visit(admission, str(index), start_s, stay_s, leaves=leaves))
        assert admission.queued == 0

    async def visit(admission: Admission[str], name: str, start_s: float, stay_s: float, *, leaves: bool) -> None:
        await asyncio.sleep(start_s / 1000)
        try:
            async with asyncio.timeout(stay_s / 2000 if leaves else None):
                await sit(admission, name, stay_s / 1000, [])
        except TimeoutError:
            assert leaves

    asyncio.run(run())
    assert seats.free == slots


async def test_a_cancellation_in_the_moment_of_being_seated_gives_the_seat_back() -> None:
    seats = Seats(1)
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        async with admission.slot(prompt("a"), gate=Gate()):
            waiting = group.create_task(sit(admission, "b", 1.0, []))
            await asyncio.sleep(0)
        waiting.cancel()  # its future has the slot, its task has not run yet
    assert seats.free == 1


async def test_a_withdrawn_request_ends_with_aborted() -> None:
    admission = queue(Seats(0))
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(expect(admission, AbortedError))
        await asyncio.sleep(1)
        assert admission.withdraw(prompt("x"))
        assert not admission.withdraw(prompt("x"))
        await waiting
    assert admission.queued == 0


async def test_an_unknown_version_is_refused_in_the_queue_too() -> None:
    seats = Seats(1)
    admission = queue(seats)
    with pytest.raises(NotFoundError):
        async with admission.slot(prompt("v", UNKNOWN), gate=Gate()):
            pass
    async with asyncio.TaskGroup() as group, admission.slot(prompt("a"), gate=Gate()):
        group.create_task(sit(admission, "b", 1.0, []))
        await asyncio.sleep(0)
        group.create_task(expect(admission, NotFoundError, version=UNKNOWN))
        await asyncio.sleep(0)
    assert seats.free == 1


async def test_waiting_for_a_busy_worker_has_no_other_limit_than_the_callers() -> None:
    order = list[str]()
    admission = queue(Seats(1))
    async with asyncio.TaskGroup() as group:
        group.create_task(sit(admission, "long", 86400.0, order))
        await asyncio.sleep(0)
        group.create_task(sit(admission, "patient", 1.0, order))
    assert order == ["long", "patient"]


async def test_waiting_for_workers_that_are_all_gone_ends_after_the_limit() -> None:
    seats = Seats(1)
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        async with admission.slot(prompt("a"), gate=Gate()):
            waiting = group.create_task(expect(admission, UnavailableError))
            await asyncio.sleep(100)
            seats.absent_since_s = asyncio.get_running_loop().time()
            seats.free -= 1  # what was free went away with the worker
        await waiting
    assert asyncio.get_running_loop().time() == pytest.approx(160.0)


@asynccontextmanager
async def absent(seats: Seats) -> AsyncIterator[None]:
    seats.absent_since_s = asyncio.get_running_loop().time()
    yield
    seats.absent_since_s = None


async def test_a_worker_that_comes_back_in_time_gets_the_requests_that_waited() -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        async with absent(seats):
            group.create_task(sit(admission, "a", 1.0, order))
            await asyncio.sleep(59)
            assert order == []
        admission.pump()
    assert order == ["a"]


async def expect(admission: Admission[str], error: type[Exception], version: int | None = None) -> None:
    with pytest.raises(error):
        async with admission.slot(prompt("x", version), gate=Gate()):
            pytest.fail("it got a slot")


async def wanting(admission: Admission[str], name: str, version: int | None, order: list[str]) -> None:
    async with admission.slot(prompt(name, version), gate=Gate()):
        order.append(name)
        await asyncio.sleep(1.0)


@pytest.mark.parametrize("crowded", [False, True])
async def test_others_pass_a_request_that_no_present_worker_would_run_until_one_does(crowded: bool) -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        if crowded:
            group.create_task(wanting(admission, "first", None, order))
            await asyncio.sleep(0)
        for name, version in (("x", 1), ("y", 1), ("a", 0), ("b", None)):
            group.create_task(wanting(admission, name, version, order))
        await asyncio.sleep(10.0)
        assert order == ["first", "a", "b"][not crowded :]
        assert admission.queued == 2
        seats.offer = 1
        admission.pump()
        await asyncio.sleep(10.0)
    assert order[-2:] == ["x", "y"]
    assert (seats.free, admission.queued) == (1, 0)


async def test_a_request_that_no_present_worker_would_run_fails_after_the_limit() -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        group.create_task(expect(admission, UnavailableError, version=1))
        await asyncio.sleep(0)
        group.create_task(sit(admission, "a", 1.0, order))
        await asyncio.sleep(59.9)
        assert admission.queued == 1
        await asyncio.sleep(0.2)
        assert admission.queued == 0
    assert order == ["a"]


async def test_time_aside_does_not_count_once_a_worker_would_run_the_request() -> None:
    seats, order = Seats(1), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        group.create_task(wanting(admission, "x", 1, order))
        await asyncio.sleep(50.0)
        group.create_task(sit(admission, "long", 3600.0, order))
        await asyncio.sleep(0)
        seats.offer = 1
        admission.pump()
    assert order == ["long", "x"]


async def test_what_is_aside_can_be_withdrawn_and_cancelled() -> None:
    seats = Seats(1)
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        withdrawn = group.create_task(expect(admission, AbortedError, version=1))
        await asyncio.sleep(1.0)
        assert admission.withdraw(prompt("x", 1))
        await withdrawn
        gone = group.create_task(expect(admission, AbortedError, version=1))
        await asyncio.sleep(1.0)
        gone.cancel()
    assert (seats.free, admission.queued) == (1, 0)


async def test_nobody_passes_a_request_that_a_busy_worker_would_run() -> None:
    seats, order = Seats(0), list[str]()
    admission = queue(seats)
    async with asyncio.TaskGroup() as group:
        for name, version in (("zero", 0), ("any", None)):
            group.create_task(wanting(admission, name, version, order))
        await asyncio.sleep(1.0)
        admission.pump()
        assert not order
        seats.free += 1
        admission.pump()
    assert order == ["zero", "any"]


async def test_waiting_is_measured_and_refusals_are_counted() -> None:
    def value(name: str) -> float:
        return REGISTRY.get_sample_value(f"tlt_gateway_{name}") or 0.0

    before = value("queue_seconds_sum"), value("refused_requests_total")
    admission = queue(Seats(1), max_queued=1)
    async with asyncio.TaskGroup() as group:
        for name in "ab":
            group.create_task(sit(admission, name, 3.0, []))
        await asyncio.sleep(1.0)
        with pytest.raises(OverloadedError):
            reserved(admission, 1).__enter__()
    assert value("queue_seconds_sum") - before[0] == pytest.approx(3.0)
    assert value("refused_requests_total") - before[1] == 1


async def test_a_request_whose_room_is_closed_lets_others_pass_and_is_first_when_it_opens() -> None:
    seats, order, gate = Seats(1), list[str](), Gate()
    admission = queue(seats)

    async def slow(name: str) -> None:
        async with admission.slot(prompt(name), gate=gate):
            order.append(name)
            await asyncio.sleep(1)

    async with asyncio.TaskGroup() as group:
        group.create_task(slow("a"))
        for name in "bc":
            group.create_task(slow(name))
        for name in "xyz":
            group.create_task(sit(admission, name, 1.0, order))
        await asyncio.sleep(0.5)
        gate.set(is_open=False)
        await asyncio.sleep(60)
        assert order == ["a", "x", "y", "z"]
        assert admission.queued == 0
        assert seats.free == 1
        gate.set(is_open=True)
    assert set(order[4:]) == {"b", "c"}
