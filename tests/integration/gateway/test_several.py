"""Several gateways in front of the same workers behave as one."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from socket import socket

import pytest
import torch

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start, queued
from tlt_common.client import Client, FinishReason, SamplingParams
from tlt_common.domain.request_ids import request_of
from tlt_common.errors import NotFoundError

EIGHT = SamplingParams(max_new_tokens=8)


def free_addresses() -> list[str]:
    with socket() as first, socket() as second:  # both bound at once, so that they differ
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in (first, second)]


async def both(stack: AsyncExitStack, start: Start, *workers: FakeWorker, **changes: object) -> tuple[Client, Client]:
    """Start two gateways that know each other."""
    listen = free_addresses()
    first, second = [
        await stack.enter_async_context(start(*workers, listen=address, peers=tuple(listen), **changes))
        for address in listen
    ]
    return first, second


async def test_a_version_just_published_at_one_gateway_is_served_by_the_other(start: Start, worker: FakeWorker) -> None:
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        for version in range(1, 6):
            await first.publish_weights(version, {"w": torch.ones(1)})
            response = await second.generate([1], EIGHT, policy_version=version)
            assert set(response.policy_versions) == {version}
        with pytest.raises(NotFoundError, match="is 9; accepted: 5"):
            await second.generate([1], EIGHT, policy_version=9)
        with pytest.raises(NotFoundError, match="is 4; accepted: 5"):
            await second.generate([1], EIGHT, policy_version=4)


async def test_a_request_is_aborted_at_whichever_gateway_it_is(start: Start, worker: FakeWorker) -> None:
    worker.max_running = 2
    worker.free_tokens = 1
    worker.gate.clear()
    async with AsyncExitStack() as stack:
        first, second = await both(stack, start, worker)
        async with asyncio.TaskGroup() as group:
            runs = group.create_task(first.batch([[1]], 2, EIGHT, request_ids=["runs"]))
            await worker.until(running=2)
            waits = group.create_task(first.generate([1], EIGHT, request_id="waits"))
            await queued(first, 1)
            assert await second.abort("waits", "runs", "unknown") == 3
            assert (await waits).finish_reason is FinishReason.ABORT
            assert {response.finish_reason for response in (await runs)[0]} == {FinishReason.ABORT}
            await worker.until(running=0)
            again = group.create_task(first.generate([1], EIGHT))
            await worker.until(running=1)
            assert await second.abort(everything=True) == 1
            assert (await again).finish_reason is FinishReason.ABORT


async def test_attempts_of_a_gateway_that_is_not_known_are_aborted_on_the_workers(
    start: Start, worker: FakeWorker
) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with start(worker) as first, start(worker) as second, asyncio.TaskGroup() as group:
        runs = group.create_task(first.generate([1], EIGHT, request_id="runs"))
        await worker.until(running=1)
        assert await second.abort("runs") == 1
        assert (await runs).finish_reason is FinishReason.ABORT
    assert [request_of(name) for name in worker.aborted] == ["runs"]


async def test_workers_are_found_without_a_coordinator(start: Start, worker: FakeWorker, tmp_path: Path) -> None:
    file = tmp_path / "workers.json"
    port = worker.address.rpartition(":")[2]
    async with start(workers=1, worker_service=f"127.0.0.1:{port}", known_workers=file) as client:
        assert (await client.generate([1], EIGHT)).finish_reason is FinishReason.LENGTH
    assert json.loads(file.read_text()) == [worker.address]
    async with start(workers=1, coordinator="127.0.0.1:1", known_workers=file) as client:
        assert (await client.generate([1], EIGHT)).finish_reason is FinishReason.LENGTH
