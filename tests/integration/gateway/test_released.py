"""A client releases the devices of all workers to a trainer, and takes them back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

from tests.fakes.eventually import eventually
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tests.integration.gateway.test_several import both
from tlt_common.client import BlockingClient, Client, SamplingParams
from tlt_common.domain.fleet import MEMORY_TAGS
from tlt_common.errors import EngineError, InvalidRequestError, UnavailableError

THREE = SamplingParams(max_new_tokens=3)
ALL = set(MEMORY_TAGS)


@pytest_asyncio.fixture
async def two() -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    async with FakeWorker("w0") as first, FakeWorker("w1") as second:
        first.releasable = second.releasable = True
        yield first, second


async def released(client: Client, *, is_released: bool) -> None:
    async with asyncio.timeout(10):
        while (await client.info()).released is not is_released:
            pass


async def test_requests_wait_while_the_trainer_has_the_devices(
    start: Start, two: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*two) as client, asyncio.TaskGroup() as group:
        async with client.released(limit_s=60):
            assert [fake.released for fake in two] == [ALL, ALL]
            assert two[0].release_limits == [60]
            await released(client, is_released=True)
            waiting = group.create_task(client.generate([1], THREE))
            await queued(client, 1)
            assert await client.resume(["weights"]) == 2
            assert two[0].released == ALL - {"weights"}
            assert not waiting.done()
        assert (await waiting).token_ids == (2, 3, 4)
        assert not any(fake.released for fake in two)


async def test_what_the_block_raises_reaches_the_caller_and_the_devices_are_back(
    start: Start, two: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*two) as client:
        with pytest.raises(ZeroDivisionError):
            async with client.released():
                raise ZeroDivisionError
        assert not any(fake.released for fake in two)


async def test_if_one_worker_refuses_the_others_resume(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    two[1].release_error = EngineError("the engine is not idle")
    async with start(*two) as client:
        with pytest.raises(UnavailableError, match="w1 did not release its memory: the engine is not idle"):
            await client.release()
        assert not any(fake.released for fake in two)


async def test_a_release_whose_caller_goes_is_undone(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    two[1].release_gate.clear()
    async with start(*two) as client:
        calling = asyncio.create_task(client.release())
        await eventually(lambda: bool(two[0].released))
        calling.cancel()
        await eventually(lambda: not two[0].released)


async def test_a_renewal_that_one_worker_refuses_takes_nothing_from_the_trainer(
    start: Start, two: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*two) as client:
        await client.release(["kv_cache"])
        await released(client, is_released=True)
        two[1].release_error = EngineError("no")
        with pytest.raises(UnavailableError):
            await client.release()
        assert two[0].released == {"kv_cache"}


async def test_what_is_not_accepted_is_refused_by_name(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    async with start(*two) as client:
        for limit_s in (0.0, -1.0, float("nan"), float("inf")):
            with pytest.raises(InvalidRequestError, match=r"limit_s is .*; accepted: above 0"):
                await client.release(limit_s=limit_s)
        with pytest.raises(InvalidRequestError, match="'disk'; accepted: weights"):
            await client.resume(["disk"])
    two[1].releasable = False
    async with start(*two) as client:
        with pytest.raises(InvalidRequestError, match=r"\(w1\).*engine\.releasable"):
            await client.release()


async def test_running_requests_are_not_taken_their_device(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    for fake in two:
        fake.gate.clear()
    async with start(*two) as client, asyncio.TaskGroup() as group:
        running = group.create_task(client.generate([1], THREE))
        async with asyncio.timeout(10):
            while (await client.info()).running != 1:
                pass
        with pytest.raises(InvalidRequestError, match="1 requests are running"):
            await client.release()
        for fake in two:
            fake.gate.set()
        await running


async def test_a_worker_that_restarts_is_released_before_it_may_run_anything(
    start: Start, two: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*two) as client, asyncio.TaskGroup() as group:
        await client.release(limit_s=600)
        await released(client, is_released=True)
        two[1].released.clear()
        await two[1].kill()
        waiting = group.create_task(client.generate([1], THREE))
        async with two[1]:
            await eventually(lambda: two[1].released == ALL)
            assert two[1].release_limits == [600, 600]
            assert not waiting.done()
            await client.resume()
            assert (await waiting).token_ids == (2, 3, 4)


async def test_another_gateway_knows_and_resumes(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, *two)
        await first.release()
        await released(second, is_released=True)
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(second.generate([1], THREE))
            await queued(second, 1)
            await second.resume()
            assert (await waiting).token_ids == (2, 3, 4)


async def test_a_blocking_client_does_the_same(start: Start, two: tuple[FakeWorker, FakeWorker]) -> None:
    async with start(*two) as client:

        def learn() -> None:
            with BlockingClient(client.endpoint) as blocking, blocking.released(limit_s=0.3):
                while len(two[0].release_limits) < 3:
                    assert blocking.info().running == 0

        await asyncio.to_thread(learn)
        assert not any(fake.released for fake in two)
