"""Raw bytes on the socket of a server: broken HTTP/2, and connections that are cut."""

import asyncio
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.fuzz import hostile
from tests.fuzz.calls import Call, Caller, Method
from tests.fuzz.host import Announce, hosted
from tests.fuzz.target import Subject, Target
from tlt_common.wire import tuner as wire
from tlt_tuner.config import TunerConfig
from tlt_tuner.main import serve

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ANSWER_S = 0.003
"""Seconds to wait for the server's answer before the connection is cut."""

_KINDS = range(12)
"""Types of frames: DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE,
CONTINUATION, and two that do not exist."""
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HEADERS = bytes.fromhex("838604") + bytes([10]) + b"/a.B/Method" + bytes.fromhex("410161")
"""POST, http, a path and an authority, in HPACK."""


def _frame(kind: int, flags: int, stream: int, length: int | None, payload: bytes) -> bytes:
    """Return an HTTP/2 frame; `length` replaces that of its payload."""
    announced = len(payload) if length is None else length % 2**24
    return struct.pack(">I", announced)[1:] + bytes((kind, flags)) + struct.pack(">I", stream % 2**32) + payload


def _frames() -> SearchStrategy[bytes]:
    stream = st.one_of(st.sampled_from((0, 1, 2, 3, 2**31 - 1, 2**31)), st.integers(0, 2**32 - 1))
    length = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 2**24 - 1))
    payload = st.one_of(
        st.binary(max_size=40),
        st.just(_HEADERS),
        st.sampled_from((bytes(8), bytes(4), b"\xff" * 6, bytes(20_000))),
    )
    return st.builds(_frame, st.sampled_from(_KINDS), st.integers(0, 255), stream, length, payload)


def _inputs() -> SearchStrategy[bytes]:
    several = st.lists(_frames(), max_size=6).map(b"".join)
    begun = st.builds(lambda settings, rest: PREFACE + settings + rest, st.sampled_from((_SETTINGS, b"")), several)
    other = st.sampled_from(
        (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", PREFACE[:10], PREFACE + b"\xff" * 9, b"\x00" * 70_000)
    )
    return st.one_of(begun, begun, hostile.mutated([PREFACE + _SETTINGS]), other)


async def _sent(address: str, data: bytes) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    with suppress(ConnectionError):
        writer.write(data)
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                await reader.read(4096)
    writer.transport.abort()


async def _serve(announce: Announce) -> None:
    await serve(TunerConfig(), on_serving=announce)


async def _caller(address: str) -> Caller:
    method = Method(path=f"/{wire.SERVICE_NAME}/ReportWindow", client_streams=False, server_streams=False)
    request = wire.pb.ReportWindowRequest(key=wire.pb.PoolKey(model="m"))
    return Caller(address, Call(method=method, messages=(request.SerializeToString(),)))


@contextmanager
def _open(_directory: Path) -> Iterator[Subject]:
    with hosted(_serve) as host:
        caller = host.run(_caller(host.address))
        fed = 0

        def feed(data: bytes) -> None:
            nonlocal fed
            fed += 1
            host.run(_sent(host.address, data))
            if fed % 10 == 0:
                host.run(caller.require_control())
            host.check()

        try:
            yield Subject(inputs=_inputs(), feed=feed, show=bytes.hex)
        finally:
            host.run(caller.aclose())


TARGETS = (Target(name="sockets.http2", open=_open),)
