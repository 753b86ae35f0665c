"""Calls over HTTP that are repeated after their gateway was lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.tokens import SECRETS, write
from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import serving_in

BODY = {"rid": "r", "input_ids": [5], "sampling_params": {"max_new_tokens": 8}, "return_logprob": True}
TOKENS = list(range(6, 14))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    return write(tmp_path / "tokens.yaml")


@asynccontextmanager
async def served(worker: FakeWorker, tmp_path: Path, **changes: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with serving_in(tmp_path, worker, **changes) as http:
        http.client.headers["Authorization"] = f"Bearer {SECRETS['reader']}"
        yield http.client


async def until_kept(worker: FakeWorker, count: int = 1) -> None:
    async with asyncio.timeout(10):
        while len(worker.kept.keys) != count:  # noqa: ASYNC110 - the gateway closes a socket
            await asyncio.sleep(0.01)


async def lose(worker: FakeWorker, tmp_path: Path, body: Any, *, tokens: Path | None = None) -> None:
    """Make a call to a gateway that is lost after three tokens."""
    worker.free_tokens = 3
    worker.gate.clear()
    async with AsyncExitStack() as first:
        client = await first.enter_async_context(served(worker, tmp_path, tokens=tokens))
        call = asyncio.ensure_future(client.post("/generate", json=body))
        await worker.until(body.get("sampling_params", {}).get("n", 1))
        async with asyncio.timeout(10):
            await asyncio.sleep(0.2)
        await first.aclose()
        with suppress(httpx.HTTPError):
            await call
    worker.free_tokens = 0
    worker.gate.set()


async def test_a_call_that_is_repeated_goes_on_at_another_gateway(worker: FakeWorker, tmp_path: Path) -> None:
    await lose(worker, tmp_path, BODY)
    await until_kept(worker)
    async with served(worker, tmp_path) as second:
        answer = (await second.post("/generate", json=BODY)).json()
    assert answer["output_ids"] == TOKENS
    assert len(answer["meta_info"]["output_token_logprobs"]) == len(TOKENS)
    assert worker.prompts[-1].prefix_token_ids == (6, 7, 8)


async def test_a_call_that_loses_two_gateways_is_answered_rightly(worker: FakeWorker, tmp_path: Path) -> None:
    await lose(worker, tmp_path, BODY)
    await until_kept(worker)
    await lose(worker, tmp_path, BODY)
    assert worker.prompts[-1].prefix_token_ids == (6, 7, 8)
    async with served(worker, tmp_path) as third:
        assert (await third.post("/generate", json=BODY)).json()["output_ids"] == TOKENS


async def test_all_samples_of_a_call_go_on(worker: FakeWorker, tmp_path: Path) -> None:
    body = BODY | {"sampling_params": {"max_new_tokens": 8, "n": 3}}
    await lose(worker, tmp_path, body)
    await until_kept(worker, 3)
    async with served(worker, tmp_path) as second:
        answers = (await second.post("/generate", json=body)).json()
    assert [answer["output_ids"] for answer in answers] == [TOKENS] * 3
    assert [len(prompt.prefix_token_ids) for prompt in worker.prompts] == [0, 0, 0, 3, 3, 3]


@pytest.mark.parametrize(
    "change",
    [
        {"rid": "other"},
        {"rid": None},
        {"input_ids": [6]},
        {"sampling_params": {"max_new_tokens": 9}},
        {"cache_salt": "s"},
    ],
)
async def test_another_call_does_not(worker: FakeWorker, tmp_path: Path, change: dict[str, Any]) -> None:
    await lose(worker, tmp_path, BODY)
    await until_kept(worker)
    async with served(worker, tmp_path) as second:
        assert (await second.post("/generate", json=BODY | change)).status_code == 200
    assert not worker.prompts[-1].prefix_token_ids


async def test_nobody_reads_the_response_of_another(worker: FakeWorker, tmp_path: Path, tokens: Path) -> None:
    await lose(worker, tmp_path, BODY, tokens=tokens)
    await until_kept(worker)
    async with served(worker, tmp_path, tokens=tokens) as second:
        theirs = {"Authorization": f"Bearer {SECRETS['trainer']}"}
        assert (await second.post("/generate", json=BODY, headers=theirs)).status_code == 200
        assert not worker.prompts[-1].prefix_token_ids
        assert (await second.post("/generate", json=BODY)).json()["output_ids"] == TOKENS
        assert worker.prompts[-1].prefix_token_ids == (6, 7, 8)


async def test_a_call_whose_client_hung_up_is_not_kept(worker: FakeWorker, tmp_path: Path) -> None:
    worker.free_tokens = 3
    worker.gate.clear()
    async with served(worker, tmp_path) as client:
        call = asyncio.ensure_future(client.post("/generate", json=BODY))
        await worker.until(1)
        call.cancel()
        await worker.until(0)
    assert worker.kept.keys == ()
