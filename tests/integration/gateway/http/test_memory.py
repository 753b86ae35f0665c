"""Trainers that share their devices with the engines let them release memory, on all workers or on none."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve
from tlt_common.errors import EngineError

THREE = {"input_ids": [4], "sampling_params": {"max_new_tokens": 3}}


@pytest_asyncio.fixture
async def two() -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    async with FakeWorker("w0") as first, FakeWorker("w1") as second:
        first.releasable = second.releasable = True
        yield first, second


async def test_requests_wait_while_the_trainer_has_the_devices(
    serve: Serve, two: tuple[FakeWorker, FakeWorker]
) -> None:
    async with serve(*two) as http:
        assert (await http.post("/release_memory_occupation")).status_code == 200
        assert all(fake.released for fake in two)
        assert (await http.client.get("/is_sleeping")).json() == {"is_sleeping": True}
        calling = asyncio.create_task(http.post("/generate", THREE))
        await asyncio.sleep(0.3)
        assert not calling.done()
        assert (await http.post("/resume_memory_occupation", {"tags": ["weights"]})).status_code == 200
        await asyncio.sleep(0.3)
        assert not calling.done(), "the KV cache is not back"
        assert (await http.post("/wake_up?tags=kv_cache&tags=cuda_graph")).status_code == 200
        assert (await calling).json()["output_ids"] == [5, 6, 7]
        assert (await http.client.get("/is_sleeping")).json() == {"is_sleeping": False}


async def test_sleep_ends_what_runs_as_in_vllm(serve: Serve, two: tuple[FakeWorker, FakeWorker]) -> None:
    async with serve(*two) as http:
        for fake in two:
            fake.free_tokens = 1
            fake.gate.clear()
        calling = asyncio.create_task(http.post("/generate", THREE))
        async with asyncio.timeout(10):
            while not any(fake.running for fake in two):  # noqa: ASYNC110 - behind sockets
                await asyncio.sleep(0.01)
        assert (await http.refused("/release_memory_occupation", {}))["param"] == "tags"
        assert not any(fake.released for fake in two)
        assert (await http.post("/sleep?level=1")).status_code == 200
        assert (await calling).json()["meta_info"]["finish_reason"]["type"] == "abort"
        assert all(fake.released for fake in two)
        assert (await http.post("/wake_up")).status_code == 200


async def test_if_one_worker_keeps_its_memory_all_do(serve: Serve, two: tuple[FakeWorker, FakeWorker]) -> None:
    two[1].release_error = EngineError("the engine is not idle")
    async with serve(*two) as http:
        answer = await http.post("/release_memory_occupation")
        assert answer.status_code == 503
        assert "w1 did not release its memory: the engine is not idle" in answer.text
        assert not any(fake.released for fake in two)
        assert (await http.post("/generate", THREE)).json()["output_ids"] == [5, 6, 7]
        two[1].releasable = False
        two[1].watchers.changed()
        await asyncio.sleep(0.2)
        assert "engine.releasable" in (await http.refused("/release_memory_occupation", {}))["message"]
