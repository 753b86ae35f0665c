"""
A TCP proxy in front of all gateways, like a Kubernetes Service: each connection goes to one of them.

The campaign cuts and freezes the connections that clients have through it.
"""

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

CHUNK_BYTES = 2**16
CONNECT_S = 2.0
"""Time limit of a connection in seconds; then the next target is tried."""
RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that closes with a RST instead of a FIN."""


class Proxy:
    """
    Forwards connections to the first of its targets, in random order, that accepts one.

    Args:
        targets: host:port of each.
        seed: Seed of the choice among targets.
    """

    addresses: tuple[str, ...]
    """host:port of each listening port. gRPC shares one connection among all channels to an address."""

    def __init__(self, targets: Sequence[str], *, seed: int) -> None:
        self._targets = list(targets)
        self._random = random.Random(seed)
        self._open: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def connections(self) -> int:
        """Number of open client connections."""
        return len(self._open)

    def cut(self) -> int:
        """Reset all connections; return how many there were."""
        writers, self._open = self._open, set()
        for writer in writers:
            raw: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):  # it is closed already
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        return len(writers)

    def freeze(self) -> None:
        """Deliver nothing in either direction until `thaw`. Connections stay open."""
        self._flowing.clear()

    def thaw(self) -> None:
        """Deliver the held data."""
        self._flowing.set()

    @asynccontextmanager
    async def listening(self, *, ports: int = 1, host: str = "127.0.0.1") -> AsyncIterator[None]:
        """Accept connections on free ports within the block."""
        async with asyncio.TaskGroup() as connections:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                connections.create_task(self._forward(reader, writer), name="connection")

            servers = [await asyncio.start_server(accept, host, 0) for _ in range(ports)]
            self.addresses = tuple(f"{host}:{server.sockets[0].getsockname()[1]}" for server in servers)
            try:
                yield
            finally:
                for server in servers:
                    server.close()
                self.thaw()
                self.cut()
        await asyncio.sleep(0)  # sockets of aborted connections are closed in the next turn of the loop

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream = await self._connected()
        if upstream is None:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            await _either(self._pipe(reader, upstream[1]), self._pipe(upstream[0], writer))
        finally:
            self._open.discard(writer)
            writer.transport.abort()
            upstream[1].transport.abort()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        for target in self._random.sample(self._targets, len(self._targets)):
            host, _, port = target.rpartition(":")
            with suppress(OSError):  # a TimeoutError is one, too
                async with asyncio.timeout(CONNECT_S):
                    return await asyncio.open_connection(host, int(port))
        return None

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):  # one of both ends is closed, which ends the other
            while data := await reader.read(CHUNK_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()


async def _either(*directions: Coroutine[Any, Any, None]) -> None:
    """Run both directions until one ends."""
    tasks = [asyncio.ensure_future(direction) for direction in directions]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
