"""HTTP calls to a gateway that shuts down: those that run complete, others are refused, and each gets an answer."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.test_drain import gateway
from tlt_common.rpc.addresses import announced_in
from tlt_common.rpc.drain import Drain
from tlt_gateway.main import draining

BODY = {"input_ids": [5], "sampling_params": {"max_new_tokens": 4}}
TOKENS = [6, 7, 8, 9]


@asynccontextmanager
async def served(worker: FakeWorker, drain: Drain, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    ports = tmp_path / "ports.json"
    with announced_in(ports):
        async with gateway(worker, drain, http={"listen": "127.0.0.1:0"}):
            base = f"http://{json.loads(ports.read_text())['rollout_http']}"
            async with httpx.AsyncClient(base_url=base, timeout=20) as client, asyncio.timeout(20):
                while (await client.get("/health")).status_code != 200:  # noqa: ASYNC110 - workers report over sockets
                    await asyncio.sleep(0.02)
                yield client


async def events(client: httpx.AsyncClient, path: str, body: Any, arrived: asyncio.Event) -> list[Any]:
    """Return the events of a stream; `arrived` is set once the first is there."""
    found: list[Any] = []
    async with client.stream("POST", path, json=body) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if event := line.removeprefix("data: "):
                found.append(event if event == "[DONE]" else json.loads(event))
                arrived.set()
    return found


@asynccontextmanager
async def begun(worker: FakeWorker, drain: Drain, tmp_path: Path, *, within_s: float) -> AsyncIterator[Any]:
    """Start a call and a stream, then drain the gateway once both run."""
    worker.free_tokens = 1
    worker.gate.clear()
    async with served(worker, drain, tmp_path) as client, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.post("/generate", json=BODY))
        arrived = asyncio.Event()
        stream = tasks.create_task(events(client, "/generate", BODY | {"stream": True}, arrived))
        await worker.until(2)
        await arrived.wait()
        complete = tasks.create_task(drain.complete(within_s))
        await asyncio.sleep(0)
        yield client, call, stream, complete


async def test_calls_that_run_complete_and_further_ones_are_refused(worker: FakeWorker, tmp_path: Path) -> None:
    async with begun(worker, draining(), tmp_path, within_s=60) as (client, call, stream, complete):
        for path in ("/generate", "/v1/completions", "/pause_generation", "/nowhere"):
            refused = await client.post(path, json=BODY)
            assert refused.status_code == 503
            assert refused.json()["error"]["type"] == "DRAINING"
            assert refused.headers["retry-after"] == "1"
            assert refused.headers["connection"] == "close"
        health = await client.get("/health")
        assert (health.status_code, health.json()["error"]["type"]) == (503, "DRAINING")
        assert not complete.done()
        worker.gate.set()
        answer = await call
        assert (answer.status_code, answer.json()["output_ids"]) == (200, TOKENS)
        assert answer.headers["connection"] == "close"
        assert (await stream)[-2]["output_ids"] == TOKENS
        assert await complete


async def test_what_does_not_end_in_time_says_why(worker: FakeWorker, tmp_path: Path) -> None:
    async with begun(worker, draining(), tmp_path, within_s=1.0) as (_, call, stream, complete):
        answer = await call
        assert answer.status_code == 503
        assert answer.json()["error"]["type"] == "DRAINING"
        assert answer.headers["retry-after"] == "1"
        assert [event["error"]["type"] for event in await stream if "error" in event] == ["DRAINING"]
        assert not await complete


async def test_a_stream_that_has_not_begun_is_answered_with_its_status(worker: FakeWorker, tmp_path: Path) -> None:
    worker.gate.clear()
    drain = draining()
    async with served(worker, drain, tmp_path) as client, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.post("/generate", json=BODY | {"stream": True}))
        await worker.until(1)
        assert not await drain.complete(0.1)
        answer = await call
        assert (answer.status_code, answer.json()["error"]["type"]) == (503, "DRAINING")
        assert answer.headers["retry-after"] == "1"


async def test_a_request_can_be_aborted_while_its_gateway_drains(worker: FakeWorker, tmp_path: Path) -> None:
    async with begun(worker, draining(), tmp_path, within_s=60) as (client, call, stream, complete):
        assert (await client.post("/abort_request", json={"abort_all": True})).status_code == 200
        assert (await call).json()["meta_info"]["finish_reason"]["type"] == "abort"
        await stream
        assert await complete


@pytest.mark.parametrize("path", ["/v1/completions", "/inference/v1/generate"])
async def test_other_protocols_complete_too(worker: FakeWorker, tmp_path: Path, path: str) -> None:
    body = {
        "/v1/completions": {"model": "fake", "prompt": [5], "max_tokens": 4},
        "/inference/v1/generate": {"model": "fake", "token_ids": [5], "sampling_params": {"max_tokens": 4}},
    }[path]
    worker.gate.clear()
    drain = draining()
    async with served(worker, drain, tmp_path) as client, asyncio.TaskGroup() as tasks:
        call = tasks.create_task(client.post(path, json=body))
        await worker.until(1)
        complete = tasks.create_task(drain.complete(60))
        await asyncio.sleep(0.1)
        worker.gate.set()
        assert (await call).status_code == 200
        assert await complete
