"""Which experts tokens were routed to: over gRPC and SGLang's HTTP, whole whatever became of the attempts."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import Start
from tests.integration.gateway.http.conftest import Serve, serve
from tlt_common.client import SamplingParams, TokenChunk
from tlt_common.errors import InvalidRequestError

__all__ = ["serve"]

EIGHT = SamplingParams(max_new_tokens=8)
HTTP_EIGHT = {"max_new_tokens": 8}


@pytest_asyncio.fixture
async def workers() -> AsyncIterator[tuple[FakeWorker, FakeWorker]]:
    async with FakeWorker("w0", max_running=1) as first, FakeWorker("w1", max_running=1) as second:
        first.routes = second.routes = True
        yield first, second


def rows_of(tokens: list[int]) -> list[list[list[int]]]:
    """What fake workers return for tokens."""
    return [[[token, token + 1]] * 2 for token in tokens]


def rows(chunk: TokenChunk) -> list[list[list[int]]]:
    assert chunk.routed_experts is not None
    found: list[list[list[int]]] = chunk.routed_experts.array().tolist()
    assert len(found) == chunk.routed_experts.tokens
    return found


async def test_a_response_has_a_row_for_each_token_but_the_last(
    start: Start, workers: tuple[FakeWorker, FakeWorker]
) -> None:
    async with start(*workers) as client:
        whole = await client.generate([5, 6], EIGHT, routed_experts_start=0)
        assert rows(whole) == rows_of([5, 6, *range(7, 14)])
        chunks = [chunk async for chunk in client.stream([5, 6], EIGHT, routed_experts_start=2)]
        assert rows(chunks[-1]) == rows_of([*range(7, 14)])
        assert chunks[-1].routed_experts is not None
        assert chunks[-1].routed_experts.first == 2
        assert all(chunk.routed_experts is None for chunk in chunks[:-1])
        [pair] = await client.batch([[5]], 2, EIGHT, routed_experts_start=0)
        assert [rows(response) for response in pair] == [rows_of([*range(5, 13)])] * 2
        assert (await client.generate([5], EIGHT)).routed_experts is None


async def test_a_response_that_lost_its_worker_has_all_rows(
    start: Start, workers: tuple[FakeWorker, FakeWorker]
) -> None:
    for worker in workers:
        worker.free_tokens = 3
        worker.gate.clear()
    async with start(*workers) as client:
        response = client.stream([5], EIGHT, routed_experts_start=0)
        chunks = [await anext(response)]
        (busy,) = [worker for worker in workers if worker.running]
        await busy.kill()
        for worker in workers:
            worker.gate.set()
        chunks += [chunk async for chunk in response]
    assert rows(chunks[-1]) == rows_of([*range(5, 13)])
    assert sum(len(worker.prompts) for worker in workers) == 2


async def test_experts_are_refused_unless_all_workers_return_them(
    start: Start, workers: tuple[FakeWorker, FakeWorker]
) -> None:
    workers[1].routes = False
    async with start(*workers) as client:
        with pytest.raises(InvalidRequestError, match=r"accepted: unset.*return_routed_experts") as raised:
            await client.generate([5], EIGHT, routed_experts_start=0)
        assert raised.value.field == "prompt.routed_experts_start"
    workers[1].routes = True
    async with start(*workers) as client:
        for wrong in (-1, 2):
            with pytest.raises(InvalidRequestError, match=rf"routed_experts_start is {wrong}; accepted: from 0 to 1"):
                await client.generate([5], EIGHT, routed_experts_start=wrong)
    assert not [*workers[0].prompts, *workers[1].prompts]


def decoded(answer: dict[str, Any]) -> list[list[list[int]]]:
    """Decode an answer as SGLang's own helper does."""
    raw = base64.b64decode(answer["meta_info"]["routed_experts"].encode())
    found: list[list[list[int]]] = np.frombuffer(raw, np.int32).reshape(-1, 2, 2).tolist()
    return found


async def test_http_answers_have_them_in_sglangs_form(serve: Serve, workers: tuple[FakeWorker, FakeWorker]) -> None:
    body = {"input_ids": [5, 6], "sampling_params": HTTP_EIGHT, "return_routed_experts": True}
    async with serve(*workers) as http:
        assert decoded((await http.post("/generate", body)).json()) == rows_of([*range(5, 14)])
        later = (await http.post("/generate", body | {"routed_experts_start_len": 1})).json()
        assert decoded(later) == rows_of([*range(6, 14)])
        events = await http.events("/generate", body | {"stream": True})
        assert decoded(events[-1]) == rows_of([*range(5, 14)])
        assert all("routed_experts" not in event["meta_info"] for event in events[:-1])
        for none in ({"return_routed_experts": False}, {"return_routed_experts": None, "routed_experts_start_len": 0}):
            assert "routed_experts" not in (await http.post("/generate", body | none)).json()["meta_info"]
        pair = (await http.post("/generate", body | {"input_ids": [[5], [7]]})).json()
        assert [decoded(answer) for answer in pair] == [rows_of([*range(5, 13)]), rows_of([*range(7, 15)])]


async def test_http_refuses_them_by_sglangs_names(serve: Serve, workers: tuple[FakeWorker, FakeWorker]) -> None:
    body = {"input_ids": [5, 6], "sampling_params": HTTP_EIGHT, "return_routed_experts": True}
    async with serve(*workers) as http:
        error = await http.refused("/generate", body | {"routed_experts_start_len": 3})
        assert error["param"] == "routed_experts_start_len"
        assert "accepted: 0 to 2" in error["message"]
        unasked = body | {"return_routed_experts": False, "routed_experts_start_len": 1}
        assert (await http.refused("/generate", unasked))["param"] == "routed_experts_start_len"
        chat = {"model": "fake", "prompt": [5], "return_routed_experts": True}
        assert (await http.refused("/v1/completions", chat))["param"] == "return_routed_experts"
    workers[0].routes = False
    async with serve(*workers) as http:
        error = await http.refused("/generate", body)
        assert error["param"] == "return_routed_experts"
        assert error["message"].startswith("return_routed_experts is set, and the engines do not return")


async def test_a_worker_keeps_no_experts_for_a_call_that_may_be_repeated(
    serve: Serve, workers: tuple[FakeWorker, FakeWorker]
) -> None:
    body = {"input_ids": [5], "sampling_params": HTTP_EIGHT, "rid": "mine"}
    async with serve(workers[0]) as http:
        await http.post("/generate", body)
        await http.post("/generate", body | {"return_routed_experts": True})
    assert [bool(prompt.keep_key) for prompt in workers[0].prompts] == [True, False]
