"""A TCP relay that breaks connections, as a lost process or a proxy does, or falls silent, as a frozen machine does."""

import asyncio
from contextlib import suppress
from typing import Self


class Relay:
    """Relays connections to `target`, host:port, until `cut`."""

    def __init__(self, target: str) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.address = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        self._thawed.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Reset all connections; new ones are accepted."""
        for writer in self._open:
            writer.transport.abort()

    def freeze(self) -> None:
        """Forward nothing from now on, also on new connections, and close none."""
        self._thawed.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._thawed.wait()
            other_reader, other_writer = await asyncio.open_connection(*await self._opened(reader, writer))
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, other_writer}
        try:
            await asyncio.gather(self._copy(reader, other_writer), self._copy(other_reader, writer))
        finally:
            self._open -= {writer, other_writer}

    async def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        """Return where a new connection leads."""
        return self._host, self._port

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._thawed.wait()
                writer.write(data)
                await writer.drain()
        writer.transport.abort()
