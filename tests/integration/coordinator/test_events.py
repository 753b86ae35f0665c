"""Events of the coordinator, over real sockets."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from tests.fakes.lease_holder import LeaseHolder
from tests.fakes.tokens import SECRETS, TOKENS, write
from tests.integration.coordinator.conftest import Start

CALL_S = 10.0


async def data_of(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    async for line in answer.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def test_a_reader_hears_of_a_worker_that_joins(start: Start) -> None:
    async with (
        start(lending=False) as at,
        httpx.AsyncClient(timeout=CALL_S) as client,
        client.stream("GET", f"http://{at.http}/api/v1/events") as answer,
    ):
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        events = data_of(answer)
        assert (await anext(events))["fleet"]["workers"] == 0
        async with LeaseHolder(at.grpc, "w"):
            while not (workers := (await anext(events))["workers"]):
                pass
        assert {row["worker_id"] for row in workers} == {"w"}


async def test_a_token_that_is_removed_ends_the_stream_and_opens_no_other(start: Start, tmp_path: Path) -> None:
    tokens = write(tmp_path / "tokens.yaml")
    headers = {"Authorization": f"Bearer {SECRETS['observer']}"}
    async with start(tokens=tokens) as at, httpx.AsyncClient(timeout=CALL_S, headers=headers) as client:
        address = f"http://{at.http}/api/v1/events"
        async with client.stream("GET", address) as answer:
            events = data_of(answer)
            await anext(events)
            write(tokens, TOKENS[:1])
            assert len([event async for event in events]) <= 1
        assert (await client.get(address)).status_code == 401
