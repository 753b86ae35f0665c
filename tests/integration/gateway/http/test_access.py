"""What callers with tokens may do at a time and to each other; tests/hostile/cases/callers says who may call at all."""

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
