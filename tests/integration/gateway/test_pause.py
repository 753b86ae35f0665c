"""Pauses of generation at all gateways of a fleet."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch

from tests.fakes.peers import Peer
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, gateway, queued
from tests.integration.gateway.test_several import both, free_addresses
from tlt_common.client import SamplingParams
from tlt_common.domain.pause import PauseMode
from tlt_common.domain.response import FinishReason
from tlt_common.errors import InvalidRequestError, UnavailableError
from tlt_common.wire import rollout as wire
from tlt_gateway.config import GatewayConfig

SIX = SamplingParams(max_new_tokens=6)
TOKENS = (2, 3, 4, 5, 6, 7)


async def test_a_pause_at_one_gateway_holds_the_requests_of_all(start: Start, worker: FakeWorker) -> None:
    worker.free_tokens = 2
    worker.gate.clear()
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(client.generate([1], SIX)) for client in (first, second)]
            await worker.until(running=2)
            await first.pause()
            await worker.until(running=0)
            calls.append(group.create_task(second.generate([1], SIX)))
            await queued(second, 2)
            worker.gate.set()
            await second.proceed()
    assert [call.result().token_ids for call in calls] == [TOKENS] * 3


async def test_a_pause_can_end_all_requests(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(client.generate([1], SIX)) for client in (first, second)]
            await worker.until(running=2)
            await first.pause("abort")
    assert {call.result().finish_reason for call in calls} == {FinishReason.ABORT}


async def test_a_second_pause_spares_the_requests_that_wait_in_the_first(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        running = group.create_task(client.generate([1], SIX))
        await worker.until(running=1)
        await client.pause()
        await worker.until(running=0)
        waiting = group.create_task(client.generate([1], SIX))
        await queued(client, 2)
        await client.pause("abort")
        assert (await running).finish_reason is FinishReason.ABORT
        worker.gate.set()
        await client.proceed()
        assert (await waiting).token_ids == TOKENS


async def test_a_later_pause_ends_what_an_earlier_one_has_spared(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with start(worker) as client, asyncio.TaskGroup() as group:
        await client.pause()
        waiting = group.create_task(client.generate([1], SIX))
        await queued(client, 1)
        await client.proceed()
        await worker.until(running=1)
        await client.pause("abort")
        assert (await waiting).finish_reason is FinishReason.ABORT


async def test_a_pause_can_wait_for_running_requests(start: Start, worker: FakeWorker) -> None:
    worker.gate.clear()
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        async with asyncio.TaskGroup() as group:
            runs = group.create_task(second.generate([1], SIX))
            await worker.until(running=1)
            pausing = group.create_task(first.pause(PauseMode.WAIT))
            await first.info()  # the gateway takes calls of a connection in order
            later = group.create_task(first.generate([1], SIX))
            await queued(first, 1)
            assert not pausing.done()
            worker.gate.set()
            assert (await runs).token_ids == TOKENS
            await pausing
            assert not later.done()
            await first.proceed()
            assert (await later).token_ids == TOKENS


async def test_a_gateway_that_is_down_does_not_prevent_a_pause(start: Start, worker: FakeWorker) -> None:
    async with start(worker, peers=free_addresses()) as client:
        await client.pause()
        await client.proceed()


async def test_a_gateway_that_refuses_prevents_it(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(f"tokens: [{{name: trainer, token: {'a' * 32}, scopes: [update_weights]}}]")
    async with AsyncExitStack() as stack:
        (listen, _) = free_addresses()
        stranger = await stack.enter_async_context(gateway(GatewayConfig(listen=listen, tokens=tokens)))
        client = await stack.enter_async_context(start(worker, peers=(stranger,)))
        with pytest.raises(UnavailableError, match=stranger):
            await client.pause()
        assert (await client.generate([1], SIX)).token_ids == TOKENS, "nothing is paused then"


async def test_a_mode_that_does_not_exist_is_refused(start: Start, worker: FakeWorker) -> None:
    async with start(worker) as client:
        with pytest.raises(InvalidRequestError, match="keep"):
            await client.pause("sleep")


async def test_a_pause_that_nobody_ends_expires_at_all_gateways(start: Start, worker: FakeWorker) -> None:
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker, max_pause_s=0.5)
        await first.pause()
        assert (await second.info()).pause.holds
        assert [(await client.generate([1], SIX)).token_ids for client in (first, second)] == [TOKENS] * 2
        assert not (await first.info()).pause.holds


async def test_a_gateway_that_restarts_learns_of_a_pause_and_of_its_end_from_the_workers(
    start: Start, worker: FakeWorker
) -> None:
    async with start(worker) as client:
        await client.pause()
        async with asyncio.timeout(10):
            while not worker.watchers.pause.holds:  # noqa: ASYNC110 - told over a socket
                await asyncio.sleep(0.01)
    async with start(worker) as restarted, start(worker) as other, asyncio.TaskGroup() as group:
        assert 3500 < (await restarted.info()).pause.left_s <= 3600
        call = group.create_task(restarted.generate([1], SIX))
        await queued(restarted, 1)
        assert not worker.prompts
        await other.proceed()  # no peer of the first
        assert (await call).token_ids == TOKENS


class LosesAnswer(wire.Servicer):
    """A peer that pauses, and whose first answers are lost."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def Pause(self, request: wire.pb.PauseRequest, context: Any) -> wire.pb.PauseResponse:
        await self._lose("pause", context)
        return wire.pb.PauseResponse()

    async def Proceed(self, request: wire.pb.ProceedRequest, context: Any) -> wire.pb.ProceedResponse:
        await self._lose("proceed", context)
        return wire.pb.ProceedResponse()

    async def _lose(self, call: str, context: Any) -> None:
        self.calls.append(call)
        if self.calls.count(call) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the connection broke")


async def test_a_peer_whose_answer_is_lost_is_asked_again_and_not_taken_for_dead(
    start: Start, worker: FakeWorker
) -> None:
    servicer = LosesAnswer()  # type: ignore[abstract] # implements only what is called
    async with (
        Peer(wire.SERVICE_NAME, partial(wire.add_servicer, servicer)) as peer,
        start(worker, peers=(peer.address,)) as client,
    ):
        await client.pause()
        await client.proceed()
    assert servicer.calls == ["pause", "pause", "proceed", "proceed"]


@pytest.mark.parametrize("version", [0, None])
async def test_a_response_for_version_0_continues_after_an_update_in_a_pause(
    start: Start, worker: FakeWorker, version: int | None
) -> None:
    worker.free_tokens = 2
    worker.gate.clear()
    async with start(worker) as client, asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(client.generate([1], SIX, policy_version=version))
        await worker.until(running=1)
        await client.pause()
        await worker.until(running=0)
        await client.publish_weights(2, {"w": torch.ones(1)})
        worker.gate.set()
        await client.proceed()
        assert (await running).token_ids == TOKENS
        assert (await client.generate([1], SIX)).token_ids == TOKENS
