"""An HTTP proxy that opens tunnels, as a company's does, and notes where to."""

import asyncio
from typing import Self

from tests.fakes.relay import Relay


class ConnectProxy(Relay):
    """Answers CONNECT by relaying to the address that it names."""

    def __init__(self) -> None:
        super().__init__("nowhere:0")
        self.asked: list[str] = []
        """host:port of every request so far."""

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        return self

    async def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[str, int]:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        _, address, _ = head.split(" ", 2)
        self.asked.append(address)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        host, _, port = address.rpartition(":")
        return "127.0.0.1" if host.endswith(".invalid") else host, int(port)
