"""The campaign's network: rules, and the bridge between namespaces."""

import asyncio
import sys
from itertools import count
from pathlib import Path

import pytest

from tlt_bench.campaign.network.hosts import DEVICE, connected, why_not
from tlt_bench.campaign.network.rules import Rules, disturbances, ruleset
from tlt_bench.campaign.network.suite import NAMES, PAIRS

NUMBERS = dict(zip([*NAMES, "client"], count(1), strict=False))


def test_every_pair_is_partitioned_and_half_open_in_both_directions() -> None:
    found = disturbances(PAIRS, NUMBERS)
    assert len({one.name for one in found}) == len(found) == 3 * len(PAIRS) + 2
    for one, other in PAIRS:
        there, back = (NUMBERS[one], NUMBERS[other]), (NUMBERS[other], NUMBERS[one])
        dropped = [set(each.rules.dropped) for each in found]
        assert {there, back} in dropped
        assert {there} in dropped
        assert {back} in dropped
    assert found[0].rules.loss > 0
    assert 2 * found[1].rules.delay_s == pytest.approx(0.1)
    assert found[1] not in disturbances(PAIRS, NUMBERS, delays=False)


def test_only_the_dropped_direction_is_dropped() -> None:
    assert ruleset(Rules(dropped=((1, 2),), loss=0.05), "198.18.0").splitlines()[2:-1] == [
        " chain forward {",
        "  type filter hook forward priority 0",
        "  ip saddr 198.18.0.1 ip daddr 198.18.0.2 drop",
        "  meta protocol ip numgen random mod 1000 < 50 drop",
        " }",
    ]


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
