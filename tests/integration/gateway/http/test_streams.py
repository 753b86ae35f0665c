"""Streams that are refused: with the status of the reason, since nothing has been sent."""

import asyncio
import json
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve

STREAMS = {
    "/generate": {"input_ids": [4], "sampling_params": {"max_new_tokens": 3}, "stream": True},
    "/v1/completions": {"prompt": [4], "max_tokens": 3, "stream": True},
}


@pytest.mark.parametrize(("path", "body"), STREAMS.items(), ids=STREAMS)
async def test_a_stream_that_is_refused_has_the_status_of_the_reason(
    serve: Serve, worker: FakeWorker, path: str, body: Any
) -> None:
    async with serve(worker, max_queued=1, max_calls_per_token=20) as http:
        worker.gate.clear()
        running = [asyncio.create_task(http.post(path, body)) for _ in range(9)]
        await worker.until(8)
        async with asyncio.timeout(10):
            while (await http.client.get("/v1/loads")).json()["loads"][0]["num_waiting_reqs"] != 1:
                pass
        full = await http.post(path, body)
        assert (full.status_code, full.headers["Retry-After"]) == (429, "1")
        assert full.json()["error"]["type"] == "OVERLOADED"
        worker.gate.set()
        for answer in await asyncio.gather(*running):
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert answer.text.endswith("data: [DONE]\n\n")
        wrong = await http.post(path, {**body, "prompt" if "prompt" in body else "input_ids": [10**6]})
        assert (wrong.status_code, wrong.headers["content-type"]) == (400, "application/json")


@pytest.mark.parametrize(("path", "body"), STREAMS.items(), ids=STREAMS)
async def test_a_stream_without_a_worker_is_unavailable(serve: Serve, path: str, body: Any) -> None:
    async with serve(worker_wait_s=0.05) as http:
        answer = await http.post(path, body)
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "UNAVAILABLE")


async def test_an_error_after_the_first_tokens_is_an_event(serve: Serve, worker: FakeWorker) -> None:
    worker.free_tokens = 1
    worker.gate.clear()
    async with (
        serve(worker, worker_wait_s=0.05) as http,
        http.client.stream("POST", "/generate", json=STREAMS["/generate"]) as answer,
    ):
        assert answer.status_code == 200
        lines = answer.aiter_lines()
        first = json.loads((await anext(lines)).removeprefix("data: "))
        await worker.kill()
        rest = [line.removeprefix("data: ") async for line in lines if line]
    assert first["output_ids"] == [5]
    assert json.loads(rest[-2])["error"]["type"] == "UNAVAILABLE"
    assert rest[-1] == "[DONE]"
