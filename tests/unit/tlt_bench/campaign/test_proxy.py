"""The proxy in front of the gateways: real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tlt_bench.campaign.suite.proxy import Proxy


@asynccontextmanager
async def echo(prefix: bytes = b"") -> AsyncIterator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(100):
                writer.write(prefix + data)
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await asyncio.sleep(0.05)  # its connections have ended; their sockets are closed by later turns of the loop


async def opened(proxy: Proxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = proxy.addresses[0].rpartition(":")
    return await asyncio.open_connection(host, int(port))


async def test_bytes_pass_in_both_directions_and_a_cut_resets_the_connection() -> None:
    async with echo() as target:
        proxy = Proxy([target], seed=0)
        async with proxy.listening(), asyncio.timeout(20):
            reader, writer = await opened(proxy)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            assert proxy.connections == 1
            assert proxy.cut() == 1
            with pytest.raises(ConnectionResetError):
                assert await reader.read() == b"a reset, not an orderly end"
            writer.close()
            reader, writer = await opened(proxy)
            writer.write(b"again")
            assert await reader.readexactly(5) == b"again"
            writer.close()


async def test_a_frozen_connection_delivers_later_and_loses_nothing() -> None:
    async with echo() as target:
        proxy = Proxy([target], seed=0)
        async with proxy.listening(), asyncio.timeout(20):
            reader, writer = await opened(proxy)
            writer.write(b"a")
            assert await reader.readexactly(1) == b"a"
            proxy.freeze()
            writer.write(b"b")
            arrives = asyncio.ensure_future(reader.readexactly(1))
            done, _ = await asyncio.wait({arrives}, timeout=0.2)
            assert not done
            proxy.thaw()
            assert await arrives == b"b"
            writer.close()


async def test_connections_go_to_a_gateway_that_listens_and_are_spread_over_both() -> None:
    async with echo(b"1") as first, echo(b"2") as second:
        proxy = Proxy([first, "127.0.0.1:1", second], seed=1)
        async with proxy.listening(), asyncio.timeout(20):
            answers = set()
            for _ in range(20):
                reader, writer = await opened(proxy)
                writer.write(b"x")
                answers.add(await reader.readexactly(2))
                writer.close()
    assert answers == {b"1x", b"2x"}


async def test_without_a_gateway_the_connection_is_closed() -> None:
    proxy = Proxy(["127.0.0.1:1"], seed=0)
    async with proxy.listening(), asyncio.timeout(20):
        reader, writer = await opened(proxy)
        assert await reader.read() == b""
        writer.close()
