import asyncio
from contextlib import aclosing
from itertools import pairwise

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tlt_common.client import FinishReason, Sample, SamplingParams
from tlt_common.errors import InvalidRequestError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire

EIGHT = SamplingParams(max_new_tokens=8)
Pair = tuple[FakeWorker, FakeWorker]


async def test_a_batch_is_answered_in_order_and_spread_over_workers(start: Start, pair: Pair) -> None:
    async with start(*pair) as client:
        responses = await client.batch([[10], [20], [30]], 4, EIGHT)
    assert [[response.token_ids[0] for response in samples] for samples in responses] == [[11] * 4, [21] * 4, [31] * 4]
    assert [len(fake.prompts) for fake in pair] == [6, 6]


async def test_samples_come_as_they_finish_with_counts_and_ids(start: Start, worker: FakeWorker) -> None:
    progress: list[Sample] = []
    async with start(worker) as client:
        await client.batch([[10], [20]], 2, EIGHT, request_ids=["a", "b"], on_progress=progress.append)
    assert [sample.finished_count for sample in progress] == [1, 2, 3, 4]
    assert {sample.total_count for sample in progress} == {4}
    assert {sample.response.request_id for sample in progress} == {"a/0", "a/1", "b/0", "b/1"}
    assert all(b.elapsed_s >= a.elapsed_s >= 0 for a, b in pairwise(progress))


async def test_a_short_sample_does_not_wait_for_a_long_one(start: Start, pair: Pair) -> None:
    for fake in pair:
        fake.free_tokens = 4
        fake.gate.clear()
    short = SamplingParams(stop_token_ids=(12,), max_new_tokens=50)
    async with start(*pair) as client, aclosing(client.stream_batch([[10], [20]], 1, short)) as samples:
        first = await anext(samples)
        assert (first.prompt_index, first.response.finish_reason) == (0, FinishReason.STOP)
        for fake in pair:
            fake.gate.set()
        assert (await anext(samples)).prompt_index == 1


async def test_hanging_up_aborts_the_whole_batch(start: Start, worker: FakeWorker) -> None:
    worker.max_running = 2
    worker.gate.clear()
    async with start(worker) as client:
        async with asyncio.TaskGroup() as group:
            batch = group.create_task(client.batch([[1], [2]], 3, EIGHT))
            await worker.until(running=2)
            await queued(client, 4)
            batch.cancel()
        await worker.until(running=0)
        assert len(worker.hung_up) == 2
        await queued(client, 0)


async def test_a_prompt_of_a_batch_is_aborted_with_all_its_samples(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        batch = group.create_task(client.batch([[1], [2]], 2, EIGHT, request_ids=["a", "b"]))
        await worker.until(running=4)
        assert await client.abort("a") == 2
        worker.gate.set()
        responses = await batch
    assert [response.finish_reason for response in responses[0]] == [FinishReason.ABORT] * 2
    assert [response.finish_reason for response in responses[1]] == [FinishReason.LENGTH] * 2


async def test_one_failed_sample_fails_the_batch_and_aborts_the_rest(start: Start, pair: Pair) -> None:
    first, second = pair
    first.gate.clear()
    second.generate_error = InvalidRequestError("the engine does not do that", field="sampling.min_p")
    async with start(*pair) as client:
        with pytest.raises(InvalidRequestError, match="the engine does not do that"):
            await client.batch([[1], [2]], 2, EIGHT)
        await first.until(running=0)
        assert set(first.hung_up) == {prompt.request_id for prompt in first.prompts}
        info = await client.info()
        assert (info.running, info.queued) == (0, 0)


async def test_a_seed_makes_a_batch_repeatable_and_each_of_its_samples_differ(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        await client.batch([[1], [1]], 3, SamplingParams(max_new_tokens=2, seed=5))
    assert sorted(prompt.sampling.seed or 0 for prompt in worker.prompts) == [5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("prompts", "samples", "ids", "field", "message"),
    [
        ([], 1, [], "prompts", "is empty; accepted: at least one"),
        ([[1]], 0, [""], "samples_per_prompt", "is 0; accepted: at least 1"),
        ([[1]], -2, [""], "samples_per_prompt", "is -2"),
        ([[1]], 5001, [""], "samples_per_prompt", "makes 5001 requests; the maximum is 5000"),
        ([[1]] * 5001, 1, [""] * 5001, "prompts", "makes 5001 requests; the maximum is 5000"),
        ([[1], [2], [3], []], 1, [""] * 4, "prompts[3].token_ids", r"prompts\[3\]\.token_ids is empty"),
        ([[1], [1, 100]], 1, [""] * 2, "prompts[1].token_ids", r"prompts\[1\]\.token_ids\[1\] is 100"),
        ([[1], [2]], 1, ["x", "x"], "prompts[1].request_id", r"'x', the same as prompts\[0\]"),
    ],
)
async def test_a_batch_that_cannot_be_answered_is_refused_before_anything_runs(
    start: Start,
    worker: FakeWorker,
    prompts: list[list[int]],
    samples: int,
    ids: list[str],
    field: str,
    message: str,
) -> None:
    async with start(worker, max_queued=5000) as client:
        with pytest.raises(InvalidRequestError, match=message) as refused:
            await client.batch(prompts, samples, EIGHT, request_ids=ids)
        assert refused.value.field == field
        assert not worker.prompts


async def test_a_bad_number_in_a_batch_names_its_prompt(start: Start, worker: FakeWorker) -> None:
    request = wire.pb.GenerateBatchRequest(samples_per_prompt=1)
    request.prompts.add(token_ids=[1])
    request.prompts.add(token_ids=[1]).sampling.temperature = -1
    async with start(worker) as client, connect(client.endpoint) as channel:
        call = wire.Stub(channel).GenerateBatch(request)
        message = r"prompts\[1\]\.sampling\.temperature is -1"
        with pytest.raises(InvalidRequestError, match=message) as refused, translated():
            await anext(aiter(call))
        assert refused.value.field == "prompts[1].sampling.temperature"
