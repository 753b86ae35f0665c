"""Clients that send too much, too slowly or nonsense, or hang up: others are served, and nothing is lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from tests.fakes.worker import FakeWorker
from tests.integration.gateway.http.conftest import Http, Serve

GIB = 2**30
THREE = {"input_ids": [4], "sampling_params": {"max_new_tokens": 3}}
POST = "POST /generate HTTP/1.1\r\nHost: x\r\n"


@asynccontextmanager
async def connected(http: Http) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = http.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def is_served(http: Http) -> bool:
    answer = await http.post("/generate", THREE)
    return answer.status_code == 200 and answer.json()["output_ids"] == [5, 6, 7]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/generate", {"input_ids": [4], "sampling_params": {"warmth": 1}}),
        ("/generate", {"input_ids": [4], "sampling_params": [{"warmth": 1}]}),
        ("/inference/v1/generate", {"token_ids": [4], "sampling_params": {"warmth": 1}}),
    ],
)
async def test_the_fields_of_the_object_that_has_an_unknown_one_are_told(
    serve: Serve, worker: FakeWorker, path: str, body: Any
) -> None:
    async with serve(worker) as http:
        message = (await http.refused(path, body))["message"]
    names = message.partition("accepted: ")[2].split(", ")
    assert "temperature" in names
    assert not {"input_ids", "token_ids"} & set(names)


async def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker, max_message_bytes=5 * 2**20) as http, connected(http) as (reader, writer):
        writer.write(f"{POST}Content-Length: {GIB}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413")
        assert json.loads(await reader.read())["error"]["param"] == "body"
        assert await is_served(http)


async def test_a_body_of_a_gigabyte_in_chunks_is_cut_off(serve: Serve, worker: FakeWorker) -> None:
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    sent = 0
    async with serve(worker, max_message_bytes=5 * 2**20) as http, connected(http) as (reader, writer):
        writer.write(f"{POST}Transfer-Encoding: chunked\r\n\r\n".encode())
        with suppress(ConnectionError):
            while sent < GIB:
                writer.write(chunk)
                await writer.drain()
                sent += 2**20
        assert sent < GIB
        with suppress(ConnectionError):  # the answer is lost if the connection was reset
            assert (await reader.read(12)) in (b"HTTP/1.1 413", b"")
        assert await is_served(http)


@pytest.mark.parametrize(
    "begin",
    ["", "POST /gen", f"{POST}X: ", f"{POST}Content-Length: 100\r\n\r\n" + '{"input_ids":'],
    ids=["nothing", "line", "header", "body"],
)
async def test_a_client_that_never_completes_its_request_is_disconnected(
    serve: Serve, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch, begin: str
) -> None:
    monkeypatch.setattr("tlt_gateway.http.server.RECEIVE_S", 0.2)
    async with serve(worker) as http:
        async with connected(http) as (reader, writer):
            writer.write(begin.encode())
            await writer.drain()
            with suppress(ConnectionError):
                await reader.read()
        assert await is_served(http)
        assert len(worker.prompts) == 1


async def test_a_long_answer_is_not_cut_off_by_the_limit_on_requests(
    serve: Serve, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tlt_gateway.http.server.RECEIVE_S", 0.1)
    worker.gate.clear()
    async with serve(worker) as http:
        calling = asyncio.create_task(http.post("/generate", THREE))
        await worker.until(1)
        async with connected(http) as (reader, _):  # it is disconnected by the same limit, and began later
            await reader.read()
        worker.gate.set()
        assert (await calling).json()["output_ids"] == [5, 6, 7]


async def test_a_client_that_hangs_up_while_it_sends_leaves_nothing(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker) as http:
        for _ in range(20):
            async with connected(http) as (_, writer):
                writer.write(f"{POST}Content-Length: 100\r\n\r\n".encode() + b'{"input_ids"')
                await writer.drain()
        assert await is_served(http)
        assert len(worker.prompts) == 1


async def test_clients_that_reset_their_streams_end_their_requests_only(serve: Serve, worker: FakeWorker) -> None:
    body = json.dumps({"input_ids": [4], "sampling_params": {"max_new_tokens": 20}, "stream": True}).encode()
    worker.gate.clear()
    async with serve(worker) as http:
        staying = asyncio.create_task(http.post("/generate", THREE))
        await worker.until(1)
        async with connected(http) as (_, first), connected(http) as (_, second):
            for writer in (first, second):
                writer.write(f"{POST}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await worker.until(3)
        await worker.until(1)
        worker.gate.set()
        assert (await staying).json()["output_ids"] == [5, 6, 7]


async def test_more_connections_than_allowed_are_refused_until_others_close(serve: Serve, worker: FakeWorker) -> None:
    async with serve(worker, max_connections=10) as http:
        host, _, port = http.address.rpartition(":")
        assert await is_served(http)
        idle = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        assert await is_served(http), "a connection that was open before"
        last = await http.post("/generate", THREE, headers={"Connection": "close"})
        assert last.status_code == 200
        assert (await http.post("/generate", THREE)).status_code == 503
        for _, writer in idle:
            writer.transport.abort()
        async with asyncio.timeout(20):
            while not await is_served_or_refused(http):  # noqa: ASYNC110 - the server notices closed connections
                await asyncio.sleep(0.01)


async def is_served_or_refused(http: Http) -> bool:
    answer = await http.post("/generate", THREE)
    assert answer.status_code in {200, 503}
    return answer.status_code == 200
