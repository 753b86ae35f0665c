"""What a caller can do to a gateway before and after it has shown a token."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from tests.fakes.tokens import SECRETS, write
from tests.fakes.worker import FakeWorker
from tests.integration.security.conftest import alive
from tlt_common.client import Client, SamplingParams
from tlt_common.errors import InvalidRequestError, OverloadedError, UnauthenticatedError
from tlt_common.rpc.channel import connect
from tlt_common.rpc.errors import translated
from tlt_common.wire import rollout as wire
from tlt_gateway.config import GatewayConfig
from tlt_gateway.main import live

MIB = 2**20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = struct.pack(">I", 0)[1:] + b"\x04\x00" + struct.pack(">I", 0)


@asynccontextmanager
async def gateway(tmp_path: Path, worker: FakeWorker, **settings: Any) -> AsyncIterator[str]:
    config = GatewayConfig(workers=(worker.address,), tokens=write(tmp_path / "tokens.yaml"), **settings)
    async with alive(lambda tell: live(config, on_serving=tell)) as address:
        yield address


def bearer(holder: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {SECRETS[holder]}"),)


async def test_without_a_token_no_message_is_decoded(tmp_path: Path) -> None:
    """A call that never sends its message is refused, and so is one whose message is garbage or larger than any."""
    async with (
        FakeWorker() as worker,
        gateway(tmp_path, worker) as endpoint,
        connect(endpoint) as channel,
    ):
        path = f"/{wire.SERVICE_NAME}/Generate"
        silent: Any = channel.stream_stream(path)()
        async with asyncio.timeout(10):
            assert await silent.code() is grpc.StatusCode.UNAUTHENTICATED
        for message in (b"\xff" * 100, bytes(64 * MIB)):
            unary_stream: Any = channel.unary_stream(path)
            call = unary_stream(message)
            with pytest.raises(UnauthenticatedError, match="has no token"), translated():
                await anext(aiter(call))


async def test_messages_above_the_limit_are_refused_for_good(tmp_path: Path) -> None:
    request = wire.pb.GenerateBatchRequest(samples_per_prompt=1)
    request.prompts.add(token_ids=[2**31 - 1] * (4 * MIB))
    assert request.ByteSize() > 16 * MIB
    async with FakeWorker() as worker, gateway(tmp_path, worker) as endpoint, connect(endpoint) as channel:
        call = wire.Stub(channel).GenerateBatch(request, metadata=bearer("reader"))
        with pytest.raises(InvalidRequestError, match="larger than max"), translated():
            await anext(aiter(call))
        del request.prompts[0].token_ids[2 * MIB :]
        call = wire.Stub(channel).GenerateBatch(request, metadata=bearer("reader"))
        with pytest.raises(InvalidRequestError, match="accepted: 0 to 99"), translated():
            await anext(aiter(call))


async def test_a_token_has_so_many_calls_and_others_have_theirs(tmp_path: Path) -> None:
    async with FakeWorker() as worker, gateway(tmp_path, worker, max_calls_per_token=2) as endpoint:
        worker.gate.clear()
        async with (
            Client(endpoint, token=SECRETS["reader"]) as greedy,
            Client(endpoint, token=SECRETS["trainer"]) as other,
            asyncio.TaskGroup() as group,
        ):
            running = [group.create_task(greedy.generate([1], SamplingParams(max_new_tokens=2))) for _ in range(2)]
            await worker.until(running=2)
            async with connect(endpoint) as channel:
                call = wire.Stub(channel).GetServerInfo(wire.pb.GetServerInfoRequest(), metadata=bearer("reader"))
                with (
                    pytest.raises(OverloadedError, match="2 calls of this caller") as refused,
                    translated(),
                ):
                    await call
            assert refused.value.retry_after_s == 1.0
            await other.info()
            worker.gate.set()
            await asyncio.gather(*running)
            await greedy.info()


async def test_streamed_weights_of_a_token_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tlt_gateway.main.STREAM_BYTES", MIB)
    async with FakeWorker() as worker, gateway(tmp_path, worker) as endpoint:
        async with Client(endpoint, token=SECRETS["trainer"]) as client:
            with pytest.raises(InvalidRequestError, match="the maximum is 1048576"):  # no retry makes it fit
                await client.publish_weights(1, {"w": np.zeros(MIB, dtype="float32")})
            await client.publish_weights(1, {"w": np.zeros(MIB // 8, dtype="float32")})
        assert worker.policy_version == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01" + b"\xff" * 4096,
        PREFACE + b"\xff" * 4096,
        PREFACE + SETTINGS + b"\xff\xff\xff\x01\x04\x00\x00\x00\x01" + bytes(4096),
        PREFACE + SETTINGS + b"\x00\x40\x00\x01\x04\x00\x00\x00\x01" + b"\x82" * 16384,
    ],
    ids=["http1", "tls", "no settings", "huge frame", "many headers"],
)
async def test_raw_bytes_harm_nobody(tmp_path: Path, sent: bytes) -> None:
    async with FakeWorker() as worker, gateway(tmp_path, worker) as endpoint:
        host, _, port = endpoint.rpartition(":")
        for _ in range(20):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            await writer.drain()
            writer.close()
        async with Client(endpoint, token=SECRETS["reader"]) as client:
            assert (await client.generate([1], SamplingParams(max_new_tokens=2))).token_ids == (2, 3)


async def test_huge_metadata_is_refused(tmp_path: Path) -> None:
    async with FakeWorker() as worker, gateway(tmp_path, worker) as endpoint, connect(endpoint) as channel:
        stub = wire.Stub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await stub.GetServerInfo(
                wire.pb.GetServerInfoRequest(), metadata=(*bearer("reader"), ("x-padding", "x" * 60_000))
            )
        assert raised.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        await stub.GetServerInfo(wire.pb.GetServerInfoRequest(), metadata=bearer("reader"))


async def test_connections_are_bounded(tmp_path: Path) -> None:
    async with FakeWorker() as worker, gateway(tmp_path, worker, max_connections=3) as endpoint:
        host, _, port = endpoint.rpartition(":")
        open_ones = [await asyncio.open_connection(host, int(port)) for _ in range(6)]
        for _, writer in open_ones:
            writer.write(PREFACE + SETTINGS)
        ends = [await _answers(reader) for reader, _ in open_ones]
        assert ends.count(True) == 3
        for _, writer in open_ones:
            writer.close()


async def _answers(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(20):
        try:
            return bool(await reader.read(1))
        except ConnectionResetError:
            return False
