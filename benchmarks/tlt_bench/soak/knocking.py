"""Stray connections to a port that send requests, stay silent, break off or are reset."""

import asyncio
import random
import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""Of HTTP/2, with empty settings."""
RESET = struct.pack("ii", 1, 0)
ANSWER_S = 5.0


async def knock(address: str, protocol: str, chance: random.Random) -> None:
    """Connect to a port once, in one of these ways. `protocol` is grpc, or the path of a page."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = (
        PREFACE
        if protocol == "grpc"
        else f"GET {protocol} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    manner = chance.choice(("ask", "ask", "half", "silent", "reset"))
    try:
        if manner != "silent":
            writer.write(request[: len(request) // 2] if manner == "half" else request)
            await writer.drain()
        if manner == "ask":
            async with asyncio.timeout(ANSWER_S):
                await reader.read(1024)
        if manner == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    except (ConnectionError, TimeoutError):
        return  # refused, which is an answer
    finally:
        writer.close()
