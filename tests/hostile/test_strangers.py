"""Connections of strangers, who have no token: they take neither all descriptors nor, in turns, all memory."""

import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.fakes.machine import free_port
from tests.fakes.worker import FakeWorker
from tests.hostile.case import SECRETS, At, bearer
from tests.hostile.targets import Target, targets
from tlt_common.client import Client, SamplingParams

DESCRIPTORS = 1024
"""The usual soft limit; here it is also the hard one, so that nothing can be raised."""
CROWD = 1200
UNREAD = b"x" * 60_000
UNAUTHORIZED = b"POST /api/v1/fleet HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + UNREAD
ROUNDS, EACH = 8, 200
"""Connections one after the other: those of the first half fill what is kept anyway."""
GROWTH_MIB = 20.0
"""Of the second half; when what was received stayed, it was 68 KiB a connection, 54 MiB."""
SOON_S = 60.0
LOG_BYTES = 200_000
BODIES_MIB = 256.0


@contextmanager
def silent(address: str, count: int) -> Iterator[None]:
    """Hold connections within the block that say nothing."""
    host, _, port = address.rpartition(":")
    with ExitStack() as held:
        for _ in range(count):
            connection = held.enter_context(socket.socket())
            connection.settimeout(SOON_S)
            connection.connect((host, int(port)))
        yield


def read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SOON_S) as answer:  # noqa: S310 - http
        found: bytes = answer.read()
        return found


async def test_a_worker_joins_and_streams_run_on_beside_a_crowd(tmp_path: Path) -> None:
    late = FakeWorker("late", vocab_size=300, context_length=4096)
    late.address = f"127.0.0.1:{free_port()}"
    with targets(tmp_path, workers=[late.address], descriptors=DESCRIPTORS) as running:
        gateway = running[At.OPEN]
        async with Client(gateway.grpc, patience_s=0) as client:
            await client.wait_ready(SOON_S)
            stream = client.stream([5], SamplingParams(max_new_tokens=2000))
            assert (await anext(stream)).token_ids
            with silent(gateway.http, CROWD), silent(gateway.grpc, CROWD), silent(gateway.metrics, CROWD):
                async with late:
                    await client.wait_ready(SOON_S, workers=2)
                    async for _ in stream:
                        pass
                    assert (await client.generate([5], SamplingParams(max_new_tokens=4))).token_ids == (6, 7, 8, 9)
                assert b"alive" in read(f"http://{gateway.metrics}/livez")
            assert gateway.alive
            assert len(gateway.log) < LOG_BYTES


def test_refused_connections_leave_nothing_behind(tmp_path: Path) -> None:
    with targets(tmp_path, descriptors=DESCRIPTORS) as running:
        coordinator = running[At.COORDINATOR]
        coordinator.rest()
        grown_mib = [grown(running) for _ in range(ROUNDS)]
    assert grown_mib[-1] - grown_mib[ROUNDS // 2] < GROWTH_MIB


async def test_bodies_that_never_end_take_a_bounded_share(tmp_path: Path) -> None:
    head = f"POST /generate HTTP/1.1\r\nHost: localhost\r\nAuthorization: {bearer('generate')['Authorization']}\r\n"
    begun = head.encode() + b"Content-Length: 16000000\r\n\r\n" + b'{"text": "' + b"x" * 15_000_000
    with targets(tmp_path) as running:
        gateway = running[At.CLOSED]
        gateway.rest()
        host, _, port = gateway.http.rpartition(":")
        with ExitStack() as held:
            answers = []
            for _ in range(60):
                connection = held.enter_context(socket.create_connection((host, int(port)), timeout=SOON_S))
                with suppress(OSError):  # refused while it sends
                    connection.sendall(begun)
                answers.append(connection)
            refused = [connection for connection in answers if _answer(connection).startswith(b"HTTP/1.1 429")]
            assert len(refused) >= 60 - 5
            assert gateway.peak_mib() < BODIES_MIB
            async with Client(gateway.grpc, token=SECRETS["generate"], patience_s=0) as client:
                assert (await client.generate([5], SamplingParams(max_new_tokens=1))).token_ids == (6,)


def _answer(connection: socket.socket) -> bytes:
    """Return what has been answered; nothing while the server waits for more."""
    connection.settimeout(0.2)
    try:
        return connection.recv(65536)
    except TimeoutError:
        return b""


def grown(running: Mapping[At, Target]) -> float:
    """Send one round of requests without a token; return the memory that the coordinator has gained so far, in MiB."""
    coordinator = running[At.COORDINATOR]
    host, _, port = coordinator.http.rpartition(":")
    with ExitStack() as held:
        for _ in range(EACH):
            connection = held.enter_context(socket.create_connection((host, int(port)), timeout=SOON_S))
            connection.send(UNAUTHORIZED)
            assert b" 405 " in connection.recv(65536)
        time.sleep(1.2)  # the heap is settled every second
    time.sleep(1.2)
    return coordinator.grown_mib()
