import asyncio

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tlt_common.client import FinishReason, SamplingParams, Speculation
from tlt_common.domain.request_ids import request_of
from tlt_common.errors import InvalidRequestError, NotFoundError, OverloadedError, TltError, UnavailableError

EIGHT = SamplingParams(max_new_tokens=8)


async def test_a_response_streams_from_the_worker_to_the_client(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        chunks = [chunk async for chunk in client.stream([5], EIGHT, request_id="mine")]
        assert [token for chunk in chunks for token in chunk.token_ids] == list(range(6, 14))
        assert {chunk.request_id for chunk in chunks} == {"mine"}
        assert chunks[-1].finish_reason is FinishReason.LENGTH
        assert chunks[-1].stats is not None
        assert chunks[-1].stats.worker_id == "w0"


async def test_what_the_client_asks_reaches_the_worker_as_it_is(start: Start, worker: FakeWorker) -> None:
    sampling = SamplingParams(
        temperature=0.7, top_p=0.9, top_k=7, min_p=0.1, max_new_tokens=4, stop_token_ids=(50,), ignore_eos=True, seed=3,
        frequency_penalty=0.1, presence_penalty=0.2, repetition_penalty=1.1, min_new_tokens=2,
    )  # fmt: skip
    async with start(worker) as client:
        await client.generate([1, 2], sampling, speculation=Speculation.OFF, capture=False, policy_version=0)
    assert worker.prompts[0].sampling == sampling
    assert (worker.prompts[0].speculation, worker.prompts[0].capture) == (Speculation.OFF, False)


async def test_without_a_limit_a_response_may_fill_the_context(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        response = await client.generate([1, 2])
        assert len(response.token_ids) == worker.context_length - 2


async def test_hanging_up_aborts_in_the_worker(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 3
    worker.gate.clear()
    async with start(worker) as client:
        stream = client.stream([5], EIGHT, request_id="left")
        await anext(stream)
        await stream.aclose()
        await worker.until(running=0)
        assert [request_of(name) for name in worker.hung_up] == ["left"]
        assert (await client.info()).running == 0


async def test_a_full_queue_refuses_with_a_delay(
    start: Start, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_gateway.gateway.RETRY_AFTER_S", 0.25)
    worker.max_running = 1
    worker.gate.clear()
    async with start(worker, max_queued=1) as client, asyncio.TaskGroup() as group:
        group.create_task(client.generate([1], EIGHT))
        await worker.until(running=1)
        group.create_task(client.generate([1], EIGHT))
        await queued(client, 1)
        with pytest.raises(OverloadedError) as refused:
            await client.generate([1], EIGHT)
        assert refused.value.retry_after_s == 0.25
        with pytest.raises(OverloadedError):
            await client.batch([[1]])
        with pytest.raises(InvalidRequestError, match="the maximum is 1 per call"):
            await client.batch([[1], [2]])
        worker.gate.set()


async def test_requests_are_aborted_by_id_running_or_waiting(start: Start, worker: FakeWorker) -> None:
    worker.max_running = 1
    worker.free_tokens = 2
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        runs = group.create_task(client.generate([1], EIGHT, request_id="runs"))
        await worker.until(running=1)
        waits = group.create_task(client.generate([1], EIGHT, request_id="waits"))
        await queued(client, 1)
        assert await client.abort("waits", "unknown") == 1
        assert (await waits).finish_reason is FinishReason.ABORT
        assert (await waits).token_ids == ()
        assert await client.abort(everything=True) == 1
        partial = await runs
        assert partial.finish_reason is FinishReason.ABORT
        assert partial.token_ids == (2, 3)[: len(partial.token_ids)]
        assert partial.stats is not None
        await worker.until(running=0)
        assert [request_of(name) for name in worker.hung_up] == ["runs"]
        assert await client.abort(everything=True) == 0


@pytest.mark.parametrize(
    ("ask", "kind", "field", "message"),
    [
        ({"prompt_ids": []}, InvalidRequestError, "prompt.token_ids", "is empty; accepted: at least one"),
        ({"prompt_ids": [1, 100]}, InvalidRequestError, "prompt.token_ids", r"\[1\] is 100; accepted: 0 to 99"),
        ({"prompt_ids": [1] * 128}, InvalidRequestError, "prompt.token_ids", "128 tokens; the maximum is 127"),
        (
            {"prompt_ids": [1], "sampling": SamplingParams(max_new_tokens=128)},
            InvalidRequestError,
            "sampling.max_new_tokens",
            "is 128; the maximum is 127",
        ),
        (
            {"prompt_ids": [1], "sampling": SamplingParams(max_new_tokens=3, min_new_tokens=4)},
            InvalidRequestError,
            "sampling.min_new_tokens",
            "is 4; the maximum is 3",
        ),
        ({"prompt_ids": [1], "request_id": "r" * 257}, InvalidRequestError, "prompt.request_id", "at most 256"),
        ({"prompt_ids": [1], "policy_version": 7}, NotFoundError, "prompt.policy_version", "is 7; accepted: 0"),
    ],
)
async def test_what_the_model_cannot_answer_is_refused_with_reason_and_field(
    start: Start, worker: FakeWorker, ask: dict[str, object], kind: type[TltError], field: str, message: str
) -> None:
    async with start(worker) as client:
        with pytest.raises(kind, match=message) as refused:
            await client.generate(**ask)  # type: ignore[arg-type]
        assert refused.value.field == field
        assert not worker.prompts
        assert (await client.generate([1], EIGHT)).token_ids


async def test_an_id_can_be_used_by_one_request_at_a_time(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        first = group.create_task(client.generate([1], EIGHT, request_id="x"))
        await worker.until(running=1)
        with pytest.raises(InvalidRequestError, match="in use") as refused:
            await client.generate([1], EIGHT, request_id="x")
        assert refused.value.field == "prompt.request_id"
        worker.gate.set()
        assert (await first).finish_reason is FinishReason.LENGTH
        await client.generate([1], EIGHT, request_id="x")


async def test_an_error_of_the_worker_reaches_the_client_as_it_was(start: Start, worker: FakeWorker) -> None:
    worker.generate_error = InvalidRequestError("no such thing; accepted: another", field="sampling.top_k")
    async with start(worker) as client:
        with pytest.raises(InvalidRequestError, match="no such thing") as refused:
            await client.generate([1], EIGHT)
        assert refused.value.field == "sampling.top_k"


async def test_without_any_worker_a_request_waits_and_then_fails(start: Start) -> None:
    async with start(worker_wait_s=0.1) as client:
        with pytest.raises(UnavailableError, match=r"no worker has been available for 0\.1 s"):
            await client.generate([1], EIGHT)
        info = await client.info()
        assert (info.workers, info.model) == (0, "")
