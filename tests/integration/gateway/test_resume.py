import asyncio
from contextlib import AsyncExitStack, aclosing

import pytest

from tests.fakes.relay import Relay
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tlt_common.aio import Signal
from tlt_common.client import Client, FinishReason, Sample, SamplingParams, TokenChunk
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import request_of
from tlt_common.errors import InvalidRequestError, OverloadedError, UnavailableError
from tlt_common.rpc.channel import connect
from tlt_common.wire import rollout as wire

EIGHT = SamplingParams(max_new_tokens=8)
Pair = tuple[FakeWorker, FakeWorker]


def paused(worker: FakeWorker, after: int) -> None:
    """Let each attempt generate `after` tokens, then pause it."""
    worker.free_tokens = after
    worker.gate.clear()


class Received:
    """Chunks of a response, as they come."""

    def __init__(self) -> None:
        self.chunks: list[TokenChunk] = []
        self._signal = Signal()

    @property
    def token_ids(self) -> list[int]:
        return [token for chunk in self.chunks for token in chunk.token_ids]

    async def collect(self, client: Client, request_id: str = "r") -> None:
        async for chunk in client.stream([5], EIGHT, request_id=request_id):
            self.chunks.append(chunk)
            self._signal.set()

    async def until(self, tokens: int) -> None:
        """Wait until so many tokens have come."""
        async with asyncio.timeout(10):
            while len(self.token_ids) < tokens:
                await self._signal.beyond(self._signal.count)


async def test_a_stream_goes_on_at_another_gateway_when_its_own_ends(start: Start, worker: FakeWorker) -> None:
    paused(worker, 3)
    found = Received()
    async with AsyncExitStack() as second, asyncio.TaskGroup() as group, AsyncExitStack() as clients:
        async with start(worker) as first:
            other = await second.enter_async_context(start(worker))
            client = await clients.enter_async_context(Client([first.endpoint, other.endpoint]))
            streaming = group.create_task(found.collect(client))
            await found.until(3)
        worker.gate.set()  # the first gateway is gone
        await streaming
    assert found.token_ids == list(range(6, 14))
    assert [logprob for chunk in found.chunks for logprob in chunk.logprobs] == [-token / 128 for token in range(6, 14)]
    assert {chunk.request_id for chunk in found.chunks} == {"r"}
    stats = found.chunks[-1].stats
    assert stats is not None
    assert (stats.prompt_tokens, stats.completion_tokens, stats.rounds, stats.accepted_draft_tokens) == (1, 8, 8, 0)
    assert [prompt.prefix_token_ids for prompt in worker.prompts] == [(), (6, 7, 8)]


async def test_a_broken_connection_is_continued_at_the_same_gateway(start: Start, worker: FakeWorker) -> None:
    paused(worker, 2)
    found = Received()
    async with (
        start(worker) as direct,
        Relay(direct.endpoint) as relay,
        Client(relay.address) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(found.collect(client))
        for tokens in (2, 4, 6):
            await found.until(tokens)
            relay.cut()
        await found.until(8)
    assert found.token_ids == list(range(6, 14))
    assert found.chunks[-1].finish_reason is FinishReason.LENGTH
    assert [len(prompt.prefix_token_ids) for prompt in worker.prompts] == [0, 2, 4, 6]
    assert {request_of(prompt.request_id) for prompt in worker.prompts} == {"r"}
    assert len({prompt.request_id for prompt in worker.prompts}) == 4


async def test_a_batch_repeats_no_finished_sample_and_continues_the_others(start: Start, worker: FakeWorker) -> None:
    paused(worker, 4)
    stops_at_12 = SamplingParams(max_new_tokens=8, stop_token_ids=(12,), seed=7)
    samples: list[Sample] = []
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(Relay((await stack.enter_async_context(start(worker))).endpoint))
        client = await stack.enter_async_context(Client(relay.address))
        async with aclosing(client.stream_batch([[10], [20], [30]], 2, stops_at_12)) as finished:
            samples += [await anext(finished), await anext(finished)]
            await worker.until(running=4)
            # Tokens of unfinished samples are sent every 0.25 s.
            await asyncio.sleep(0.6)
            relay.cut()
            worker.gate.set()
            samples += [sample async for sample in finished]
    assert [sample.finished_count for sample in samples] == [1, 2, 3, 4, 5, 6]
    assert {sample.total_count for sample in samples} == {6}
    found = {(sample.prompt_index, sample.sample_index): sample.response for sample in samples}
    for (prompt, sample), response in found.items():
        first, length = (prompt + 1) * 10 + 1, 2 if prompt == 0 else 8
        assert response.token_ids == tuple(range(first, first + length)), (prompt, sample)
        assert response.logprobs == tuple(-token / 128 for token in response.token_ids)
        assert response.stats is not None
        assert (response.stats.completion_tokens, response.stats.rounds) == (length, length)
    assert sorted(len(prompt.prefix_token_ids) for prompt in worker.prompts) == [0] * 6 + [4] * 4
    seeds = {request_of(prompt.request_id): prompt.sampling.seed for prompt in worker.prompts}
    assert sorted(seed or 0 for seed in seeds.values()) == [7, 8, 9, 10, 11, 12]


async def test_a_large_batch_is_sent_in_several_calls(
    start: Start, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_common.client.batches.CALL_BYTES", 150)
    async with start(worker) as client:
        responses = await client.batch([[10] * 9, [20] * 9, [30] * 9], 3, EIGHT)
        with pytest.raises(InvalidRequestError, match=r"prompts\[2\]\.token_ids\[0\] is 300") as refused:
            await client.batch([[10] * 9, [20] * 9, [300] * 9], 3, EIGHT)
    assert [[response.token_ids[0] for response in samples] for samples in responses] == [[11] * 3, [21] * 3, [31] * 3]
    assert refused.value.field == "prompts[2].token_ids"


async def test_a_newer_attempt_replaces_an_older_one(start: Start, worker: FakeWorker) -> None:
    paused(worker, 2)
    async with start(worker) as client, connect(client.endpoint) as channel, asyncio.TaskGroup() as group:
        older = group.create_task(client.generate([5], EIGHT, request_id="r"))
        await worker.until(running=1)
        with pytest.raises(InvalidRequestError, match="'r' is in use"):
            await client.generate([5], EIGHT, request_id="r")
        prompt = Prompt(request_id=RequestId("r"), token_ids=(5,), sampling=EIGHT, prefix_token_ids=(6, 7), attempt=1)
        newer = wire.Stub(channel).Generate(wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt)))
        first = await anext(aiter(newer))
        assert (await older).finish_reason is FinishReason.ABORT
        worker.gate.set()
        rest = [token async for message in newer for token in message.chunk.token_ids]
        assert [*first.chunk.token_ids, *rest] == list(range(8, 14))
    assert [request_of(name) for name in worker.hung_up] == ["r"]


async def test_a_full_queue_is_asked_again_after_the_delay_it_states(
    start: Start, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_gateway.gateway.RETRY_AFTER_S", 0.05)
    worker.max_running = 1
    worker.gate.clear()
    async with (
        start(worker, max_queued=1) as direct,
        Client(direct.endpoint) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(direct.generate([1], EIGHT))
        await worker.until(running=1)
        group.create_task(direct.generate([1], EIGHT))
        await queued(direct, 1)
        with pytest.raises(OverloadedError):
            await direct.generate([1], EIGHT)
        stream = group.create_task(client.generate([1], EIGHT))
        batch = group.create_task(client.batch([[1]], 1, EIGHT))
        await asyncio.sleep(0.3)
        assert not stream.done()
        worker.gate.set()
        assert (await stream).token_ids == (await batch)[0][0].token_ids


async def test_patience_and_deadline_end(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as direct:
        address = direct.endpoint
    async with Client(address, patience_s=0.3) as client:
        for call in (client.generate([1], EIGHT), client.batch([[1]], 1, EIGHT)):
            with pytest.raises(UnavailableError):
                await call
    async with Client(address, patience_s=None) as client:
        for call in (client.generate([1], EIGHT, timeout_s=0.3), client.batch([[1]], 1, EIGHT, timeout_s=0.3)):
            with pytest.raises(UnavailableError):
                await call
