"""A gateway with its HTTP server, in front of fake workers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.conftest import gateway
from tlt_common.rpc.addresses import announced_in
from tlt_gateway.config import GatewayConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Http:
    """A client of a gateway, over HTTP."""

    client: httpx.AsyncClient
    address: str

    async def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return await self.client.post(path, json=body, **options)

    async def refused(self, path: str, body: Any) -> dict[str, Any]:
        """Return the error of a call that must be refused with 400."""
        answer = await self.post(path, body)
        assert answer.status_code == 400, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error

    async def events(self, path: str, body: Any) -> list[Any]:
        """Return the events of a stream, which must end with [DONE]."""
        async with self.client.stream("POST", path, json=body) as answer:
            assert answer.status_code == 200
            lines = [line.removeprefix("data: ") async for line in answer.aiter_lines() if line]
        assert lines.pop() == "[DONE]"
        return [json.loads(line) for line in lines]


Serve: TypeAlias = Callable[..., AbstractAsyncContextManager[Http]]


@asynccontextmanager
async def serving_in(
    directory: Path, *fakes: FakeWorker, within_s: float = 10, **changes: object
) -> AsyncIterator[Http]:
    """Start a gateway with HTTP in front of fake workers, and wait until they accept requests."""
    config = GatewayConfig(workers=tuple(fake.address for fake in fakes))
    changes = {"http": {"listen": "127.0.0.1:0"}} | changes
    ports = directory / "ports.json"
    with announced_in(ports):
        async with gateway(GatewayConfig.model_validate(config.model_dump() | changes), within_s=within_s):
            address = json.loads(ports.read_text())["rollout_http"]
            async with httpx.AsyncClient(base_url=f"http://{address}", timeout=20) as client, asyncio.timeout(20):
                while fakes and (await client.get("/health")).status_code != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
                yield Http(client=client, address=address)


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Return `serving_in` for a directory of the test."""
    return partial(serving_in, tmp_path)
