"""Aborts that come while no attempt at the response is at any gateway."""

from contextlib import AsyncExitStack

import grpc

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.test_several import both
from tlt_common.client import Client, FinishReason, SamplingParams
from tlt_common.domain.batch import Batch, SampleStart
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.rpc.channel import connect
from tlt_common.wire import rollout as wire

EIGHT = SamplingParams(max_new_tokens=8)


def resumed(request_id: str) -> Prompt:
    return Prompt(request_id=RequestId(request_id), token_ids=(5,), sampling=EIGHT, prefix_token_ids=(6, 7), attempt=1)


async def response(channel: grpc.aio.Channel, prompt: Prompt) -> list[TokenChunk]:
    call = wire.Stub(channel).Generate(wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt)), timeout=10)
    return [wire.chunk_from_pb(message.chunk) async for message in call]


async def test_an_attempt_after_its_abort_ends_at_once_at_every_gateway(start: Start, worker: FakeWorker) -> None:
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        assert await first.abort("r") == 0
        for client in (first, second):
            async with connect(client.endpoint) as channel:
                (only,) = await response(channel, resumed("r"))
            assert (only.request_id, only.token_ids, only.finish_reason) == ("r", (), FinishReason.ABORT)
    assert worker.prompts == []


async def test_an_aborted_sample_of_a_resumed_batch_leaves_the_others(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        await client.abort("b/1")
        assert await _finish_reasons(client) == {0: FinishReason.LENGTH, 1: FinishReason.ABORT}
        await client.abort("b")
        assert await _finish_reasons(client) == dict.fromkeys((0, 1), FinishReason.ABORT)


async def _finish_reasons(client: Client) -> dict[int, FinishReason | None]:
    """Resume two samples of a batch; return how each ended."""
    batch = Batch(
        prompts=[Prompt(request_id=RequestId("b"), token_ids=(5,), sampling=EIGHT, attempt=1)],
        samples_per_prompt=2,
        stream_tokens=False,
        starts=[SampleStart(prompt_index=0, sample_index=index, prefix_token_ids=(6,)) for index in range(2)],
    )
    async with connect(client.endpoint) as channel:
        call = wire.Stub(channel).GenerateBatch(wire.batch_to_pb(batch), timeout=10)
        return {message.sample_index: wire.chunk_from_pb(message.response).finish_reason async for message in call}
