"""Who may make HTTP calls."""

import asyncio
from pathlib import Path

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Serve

SECRETS = {
    "generate": "generate-secret-0001",
    "update_weights": "update-secret-000001",
    "admin": "admin-secret-0000001",
}


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    lines = [f"  - {{name: {scope}, token: {secret}, scopes: [{scope}]}}" for scope, secret in SECRETS.items()]
    (tmp_path / "tokens.yaml").write_text("\n".join(["tokens:", *lines]))
    return tmp_path / "tokens.yaml"


CALLS = {
    ("POST", "/generate"): "generate",
    ("POST", "/v1/completions"): "generate",
    ("POST", "/inference/v1/generate"): "generate",
    ("POST", "/pause_generation"): "update_weights",
    ("POST", "/continue_generation"): "update_weights",
    ("POST", "/update_weights_from_disk"): "update_weights",
    ("GET", "/flush_cache"): "update_weights",
    ("GET", "/v1/models"): "generate",
    ("GET", "/server_info"): "generate",
    ("GET", "/v1/loads"): "generate",
    ("GET", "/get_weight_version"): "generate",
    ("GET", "/model_info"): "generate",
}


@pytest.mark.parametrize(
    ("call", "scope"), CALLS.items(), ids=lambda value: value[1] if isinstance(value, tuple) else ""
)
async def test_calls_need_a_token_of_their_scope(
    serve: Serve, worker: FakeWorker, tokens: Path, call: tuple[str, str], scope: str
) -> None:
    async with serve(worker, tokens=tokens) as http:
        statuses = {}
        for name, secret in {**SECRETS, "wrong": "x" * 20, "": ""}.items():
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            statuses[name] = (await http.client.request(*call, headers=headers)).status_code
    assert statuses[""] == statuses["wrong"] == 401
    assert statuses[scope] not in {401, 403}
    assert statuses["admin"] not in {401, 403}
    other = "update_weights" if scope == "generate" else "generate"
    assert statuses[other] == 403


async def test_one_caller_cannot_use_all_calls(serve: Serve, worker: FakeWorker, tokens: Path) -> None:
    async with serve(worker, tokens=tokens, max_calls_per_token=1) as http:
        headers = {"Authorization": f"Bearer {SECRETS['generate']}"}
        worker.gate.clear()
        body = {"input_ids": [4], "sampling_params": {"max_new_tokens": 20}, "stream": True}
        running = asyncio.create_task(http.client.post("/generate", json=body, headers=headers))
        await worker.until(1)
        for stream in (False, True):
            refused = await http.client.post("/generate", json={**body, "stream": stream}, headers=headers)
            assert refused.status_code == 429
            assert int(refused.headers["Retry-After"]) >= 1
        worker.gate.set()
        assert (await running).status_code == 200


async def test_a_caller_finishes_no_session_of_another(serve: Serve, worker: FakeWorker, tokens: Path) -> None:
    async with serve(worker, tokens=tokens) as http:
        mine, others = ({"Authorization": f"Bearer {SECRETS[name]}"} for name in ("generate", "admin"))
        body = {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}
        await http.post("/generate", body, headers={**mine, "X-Session-ID": "s"})
        finished = [
            (await http.post("/finish_session?session_id=s", headers=headers)).json()["known"]
            for headers in (others, mine, mine)
        ]
    assert finished == [False, True, False]
