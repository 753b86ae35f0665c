"""Holders of different tokens reach nothing of one another, over HTTP and gRPC."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve

SECRETS = {"one": "one-secret-00000001", "two": "two-secret-00000002", "trainer": "trainer-secret-0001"}
SCOPES = {"one": "generate", "two": "generate", "trainer": "generate, update_weights"}
PROMPT = list(range(1, 21))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    lines = [f"  - {{name: {name}, token: {SECRETS[name]}, scopes: [{SCOPES[name]}]}}" for name in SECRETS]
    (tmp_path / "tokens.yaml").write_text("\n".join(["tokens:", *lines]))
    return tmp_path / "tokens.yaml"


async def post(http: Http, name: str, path: str, body: Any) -> Any:
    return await http.post(path, body, headers={"Authorization": f"Bearer {SECRETS[name]}"})


async def generate(http: Http, name: str, **fields: Any) -> Any:
    body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 4}} | fields
    answer = await post(http, name, "/generate", body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("body", [{"rid": "r"}, {"rid": "r_0"}, {"abort_all": True}])
async def test_nobody_ends_the_request_of_another(
    serve: Serve, worker: FakeWorker, tokens: Path, body: dict[str, Any]
) -> None:
    worker.gate.clear()
    async with serve(worker, tokens=tokens) as http, asyncio.TaskGroup() as tasks:
        mine, theirs = (tasks.create_task(generate(http, name, rid="r")) for name in ("one", "two"))
        await worker.until(2)
        assert (await post(http, "two", "/abort_request", body)).status_code == 200
        if body.get("rid") != "r_0":
            assert (await theirs)["meta_info"]["finish_reason"]["type"] == "abort"
        worker.gate.set()
        assert (await mine)["output_ids"] == [21, 22, 23, 24]


async def test_whoever_updates_weights_may_end_all_requests(serve: Serve, worker: FakeWorker, tokens: Path) -> None:
    worker.gate.clear()
    async with serve(worker, tokens=tokens) as http, asyncio.TaskGroup() as tasks:
        calls = [tasks.create_task(generate(http, name)) for name in ("one", "two")]
        await worker.until(2)
        assert (await post(http, "trainer", "/abort_request", {"abort_all": True})).status_code == 200
        assert {(await call)["meta_info"]["finish_reason"]["type"] for call in calls} == {"abort"}


async def cached(http: Http, name: str, **fields: Any) -> int:
    return int((await generate(http, name, **fields))["meta_info"]["cached_tokens"])


async def test_what_one_has_cached_another_does_not_learn(serve: Serve, worker: FakeWorker, tokens: Path) -> None:
    async with serve(worker, tokens=tokens) as http:
        assert [await cached(http, name) for name in ("one", "two", "one", "two")] == [0, 0, 19, 19]


async def test_tokens_may_share_what_is_cached(serve: Serve, worker: FakeWorker, tokens: Path) -> None:
    async with serve(worker, tokens=tokens, share_cache=True) as http:
        assert [await cached(http, name) for name in ("one", "two")] == [0, 19]


@pytest.mark.parametrize("share", [False, True])
async def test_salts_divide_what_an_owner_has_cached(
    serve: Serve, worker: FakeWorker, tokens: Path, *, share: bool
) -> None:
    async with serve(worker, tokens=tokens, share_cache=share) as http:
        for salt in ("a", "b", None):
            assert await cached(http, "one", cache_salt=salt) == 0
        for salt in ("a", "b", None):
            assert await cached(http, "one", cache_salt=salt) == 19
        assert await cached(http, "two", cache_salt="a") == (19 if share else 0)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {"prompt": PROMPT, "max_tokens": 2}),
        ("/inference/v1/generate", {"token_ids": PROMPT, "sampling_params": {"max_tokens": 2}}),
        ("/generate", {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 2}}),
    ],
)
async def test_every_protocol_honors_salts(serve: Serve, worker: FakeWorker, path: str, fields: dict[str, Any]) -> None:
    model = {} if path == "/generate" else {"model": "fake"}
    async with serve(worker) as http:
        for salt in ("a", "b", None):
            answer = await http.post(path, {**model, **fields, "cache_salt": salt})
            assert answer.status_code == 200, answer.text
        keys = [prompt.cache_key for prompt in worker.prompts]
        assert len(set(keys)) == 3
        assert keys[-1] == "", "without tokens and salt, everything is one"
        refused = await http.refused(path, {**model, **fields, "cache_salt": "x" * 300})
        assert refused["param"] == "cache_salt"
