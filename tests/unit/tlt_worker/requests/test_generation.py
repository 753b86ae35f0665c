import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.fakes.engine import FakeEngine
from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt, SamplingParams
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.errors import EngineError, InvalidRequestError, StaleVersionError
from tlt_worker.activity import Activity
from tlt_worker.requests.generation import Generation

pytestmark = pytest.mark.looptime


class Bench:
    """Generation over a scripted engine, with what it does to the device."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.activity = Activity()
        self.arrivals: list[int] = []
        self.generation = Generation(
            engine,
            engine.info,
            self.activity,
            worker_id=WorkerId("w"),
            policy_version=lambda: PolicyVersion(3),
            make_way=lambda: self.arrivals.append(len(engine.running)),
        )

    async def answer(self, prompt: Prompt) -> list[TokenChunk]:
        return [chunk async for chunk in self.generation.generate(prompt)]


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    engine = FakeEngine()
    await engine.start()
    bench = Bench(engine)
    yield bench
    assert engine.running == frozenset()
    assert bench.activity.state is WorkerState.IDLE


def prompt(request_id: str = "r", **settings: object) -> Prompt:
    return Prompt(request_id=RequestId(request_id), token_ids=(1, 2, 3), **settings)  # type: ignore[arg-type] # by name


async def test_a_response_streams_and_its_last_chunk_names_the_worker(bench: Bench) -> None:
    chunks = await bench.answer(prompt())
    assert [chunk.token_ids for chunk in chunks] == [(4,), (5,), (6,), (7,), (8,), (9,), (10,), (11,)]
    assert chunks[-1].finish_reason is FinishReason.LENGTH
    assert chunks[-1].stats is not None
    assert chunks[-1].stats.worker_id == "w"
    assert bench.generation.produced_tokens == 8
    assert bench.engine.aborted == []


async def test_the_device_is_taken_back_before_the_engine_sees_the_request(bench: Bench) -> None:
    await bench.answer(prompt())
    assert bench.arrivals == [0]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (Prompt(request_id=RequestId("r"), token_ids=()), "prompt.token_ids"),
        (Prompt(request_id=RequestId("r"), token_ids=(100,)), "prompt.token_ids"),
        (Prompt(request_id=RequestId("r"), token_ids=(1,) * 64), "prompt.token_ids"),
        (prompt(sampling=SamplingParams(max_new_tokens=62)), "sampling.max_new_tokens"),
    ],
)
async def test_what_does_not_fit_the_model_is_refused_and_never_reaches_it(
    bench: Bench, bad: Prompt, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refusal:
        await bench.answer(bad)
    assert refusal.value.field == field
    assert bench.arrivals == []


async def test_a_policy_version_that_is_not_served_is_refused(bench: Bench) -> None:
    with pytest.raises(StaleVersionError, match="served: 3"):
        await bench.answer(prompt(policy_version=PolicyVersion(4)))
    assert await bench.answer(prompt(policy_version=PolicyVersion(3)))


async def test_an_id_that_runs_is_refused_and_free_again_afterwards(bench: Bench) -> None:
    async with asyncio.TaskGroup() as callers:
        first = callers.create_task(bench.answer(prompt()))
        await asyncio.sleep(0.015)
        with pytest.raises(InvalidRequestError, match="already in use"):
            await bench.answer(prompt())
    assert len(first.result()) == 8
    assert len(await bench.answer(prompt())) == 8


async def test_requests_without_id_get_one_each(bench: Bench) -> None:
    async with asyncio.TaskGroup() as callers:
        tasks = [callers.create_task(bench.answer(prompt(""))) for _ in range(3)]
    assert len({task.result()[0].request_id for task in tasks}) == 3


async def test_a_cancelled_caller_aborts_its_request_and_frees_the_device(bench: Bench) -> None:
    caller = asyncio.ensure_future(bench.answer(prompt()))
    await asyncio.sleep(0.025)
    assert bench.activity.state is WorkerState.ROLLOUT
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert bench.activity.running == 0


async def test_a_caller_that_stops_reading_aborts_its_request(bench: Bench) -> None:
    stream = bench.generation.generate(prompt())
    await anext(stream)
    await stream.aclose()  # as gRPC does
    assert bench.engine.aborted == ["r"]
    await asyncio.sleep(0.1)


async def test_aborting_ends_the_stream_and_counts_only_what_ran(bench: Bench) -> None:
    caller = asyncio.ensure_future(bench.answer(prompt()))
    await asyncio.sleep(0.025)
    assert await bench.generation.abort([RequestId("r"), RequestId("unknown")], owner="") == {"r"}
    chunks = await caller
    assert chunks[-1].finish_reason is FinishReason.ABORT
    assert sum(len(chunk.token_ids) for chunk in chunks) == 2


async def test_a_dying_engine_fails_its_requests(bench: Bench) -> None:
    caller = asyncio.ensure_future(bench.answer(prompt()))
    await asyncio.sleep(0.025)
    bench.engine.die("killed")
    with pytest.raises(EngineError, match="killed"):
        await caller


async def test_an_owner_aborts_its_own_requests_and_gateways_single_attempts(bench: Bench) -> None:
    caller = asyncio.ensure_future(bench.answer(prompt("r~1", owner="me")))
    await asyncio.sleep(0.025)
    assert await bench.generation.abort([RequestId("r")], owner="other") == set()
    assert await bench.generation.abort([RequestId("r")], owner="") == set()
    assert await bench.generation.abort([RequestId("r~1")], owner="") == {"r"}
    assert (await caller)[-1].finish_reason is FinishReason.ABORT
