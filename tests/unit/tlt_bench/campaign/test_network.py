"""The campaign's network: rules, and the switch between namespaces."""

import asyncio
import os
import sys
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_bench.campaign.network.hosts import DEVICE, connected, why_not
from tlt_bench.campaign.network.rules import DELAY_S, Rules, disturbances
from tlt_bench.campaign.network.suite import NAMES, PAIRS
from tlt_bench.campaign.network.switch import Switch

NUMBERS = dict(zip([*NAMES, "client"], count(1), strict=False))
HOST = st.integers(1, 3)


def packet(source: int, destination: int, content: bytes = b"") -> bytes:
    """An IPv4 header, as far as the switch reads it."""
    return bytes([0x45, *([0] * 14), source, 0, 0, 0, destination]) + content


def test_every_pair_is_partitioned_and_half_open_in_both_directions() -> None:
    found = disturbances(PAIRS, NUMBERS)
    assert len({one.name for one in found}) == len(found) == 3 * len(PAIRS) + 2
    for one, other in PAIRS:
        there, back = (NUMBERS[one], NUMBERS[other]), (NUMBERS[other], NUMBERS[one])
        dropped = [set(each.rules.dropped) for each in found]
        assert {there, back} in dropped
        assert {there} in dropped
        assert {back} in dropped
    assert 2 * found[0].rules.delay_s == pytest.approx(0.1)


@given(HOST, HOST, st.floats(0, 1, exclude_max=True))
def test_only_the_dropped_direction_is_dropped(source: int, destination: int, drawn: float) -> None:
    rules = Rules(dropped=((1, 2),))
    assert rules.passes(source, destination, drawn) == ((source, destination) != (1, 2))
    assert Rules(loss=0.05).passes(source, destination, drawn) == (drawn >= 0.05)


def test_packets_arrive_at_their_destination_late_ones_in_order() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    switch = Switch({2: writing})
    switch.accept(packet(1, 2, b"now"), 0.0)
    assert os.read(reading, 100).endswith(b"now")
    switch.accept(packet(1, 9, b"to nobody"), 0.0)
    switch.accept(b"\x60 is IPv6", 0.0)
    switch.rules = Rules(delay_s=DELAY_S)
    for number in range(3):
        switch.accept(packet(1, 2, bytes([number])), 1.0)
    assert switch.deliver_due(1.0) == pytest.approx(DELAY_S)
    with pytest.raises(BlockingIOError):
        os.read(reading, 100)
    switch.deliver_due(1.0 + DELAY_S)
    assert [one[20] for one in _packets(os.read(reading, 100))] == [0, 1, 2]
    os.close(reading)
    os.close(writing)


def _packets(received: bytes) -> list[bytes]:
    return [received[at : at + 21] for at in range(0, len(received), 21)]


ECHO = """
import socket
server = socket.create_server(("", 7))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
"""


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "namespaces work")
async def test_namespaces_reach_each_other_except_while_they_are_partitioned() -> None:
    async with asyncio.timeout(60), connected(("one",), {}) as network:
        host = network.hosts["one"]
        server = await asyncio.create_subprocess_exec(
            *host.inside([sys.executable, "-c", ECHO]), stdout=asyncio.subprocess.PIPE
        )
        assert server.stdout is not None
        await server.stdout.readline()
        reader, writer = await asyncio.open_connection(host.ip, 7)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        await network.apply(Rules(dropped=((host.number, 1),)))
        writer.write(b"b")
        arrives = asyncio.ensure_future(reader.readexactly(1))
        done, _ = await asyncio.wait({arrives}, timeout=0.5)
        assert not done
        await network.apply(Rules())
        assert await arrives == b"b"  # TCP repeats what was dropped
        writer.close()
        server.kill()
        await server.wait()
    assert not exists(f"/proc/{host.pid}")
    assert not exists(f"/sys/class/net/{DEVICE.format(host.ip.split('.')[2])}")


def exists(path: str) -> bool:
    return Path(path).exists()
