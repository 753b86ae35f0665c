"""Network namespaces connected by a bridge, which has its own. Requires root, iproute2, nftables and util-linux."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tlt_bench.campaign.network.rules import Rules, ruleset
from tlt_common.errors import TltError

NETWORK = "198.18.{}"
"""In the range for benchmarks of network devices (RFC 2544), which no network uses. Each campaign on a machine uses the
first network whose device does not exist."""
DEVICE = "tlt-camp-{}"
MAX_CAMPAIGNS = 250
OWN = 1
"""Number of this process's own host, which stays in its namespace."""
BRIDGE = "bridge0"
PROGRAMS = ("ip", "tc", "nft", "unshare", "nsenter")


def why_not() -> str:
    """Return why this machine cannot run namespaces, or an empty string."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed: install iproute2, nftables and util-linux" if missing else ""


@cache
def delays() -> bool:
    """Whether the kernel has the module sch_netem, which delays packets."""
    tried = "ip link set lo up && tc qdisc add dev lo root netem delay 1ms"
    return subprocess.run(["unshare", "--net", "sh", "-c", tried], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A namespace."""

    number: int
    """Last byte of its address."""
    ip: str
    pid: int
    """A process that holds the namespace, which ends with it."""

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command inside the namespace. The process id stays the same."""
        return _inside(self.pid, command)


class Network:
    """Hosts by name, and the bridge that connects them."""

    def __init__(self, hosts: Mapping[str, Host], address: str, bridge: int) -> None:
        """
        Args:
            hosts: Hosts by name.
            address: First three bytes of all addresses.
            bridge: A process that holds the bridge's namespace.
        """
        self.hosts = hosts
        self._address = address
        self._bridge = bridge
        self._ports = [_port(number) for number in (OWN, *(host.number for host in hosts.values()))]

    async def apply(self, rules: Rules) -> None:
        """
        Apply rules to all packets from now on.

        Raises:
            TltError: The kernel refused them.
        """
        await _run(_inside(self._bridge, ["nft", "-f", "-"]), ruleset(rules, self._address))
        if delays():
            delay = (
                ("netem", "delay", f"{rules.delay_s * 1000:g}ms", "limit", "100000") if rules.delay_s else ("pfifo",)
            )
            for port in self._ports:
                await _run(_inside(self._bridge, ["tc", "qdisc", "replace", "dev", port, "root", *delay]))


@asynccontextmanager
async def connected(names: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Network]:
    """
    Run hosts of these names within the block, reachable from this process.

    Args:
        names: Names of hosts.
        environment: Variables that mark the processes that hold the namespaces, so that a guard kills them.

    Raises:
        TltError: The kernel refused.
    """
    async with AsyncExitStack() as owned:
        bridge = await _holder(owned, environment)
        await _run(_inside(bridge, ["ip", "link", "add", "name", BRIDGE, "type", "bridge"]))
        await _run(_inside(bridge, ["ip", "link", "set", BRIDGE, "up"]))
        device, campaign = await _own_port(bridge)
        owned.push_async_callback(_run, ["ip", "link", "delete", device])
        address = NETWORK.format(campaign)
        await _plugged(bridge, OWN, device, f"{address}.{OWN}", [])
        hosts = {}
        for number, name in enumerate(names, OWN + 1):
            pid = await _holder(owned, environment)
            hosts[name] = Host(number=number, ip=f"{address}.{number}", pid=pid)
            await _run(_port_command(bridge, number, "eth0", pid))
            await _run(hosts[name].inside(["ip", "link", "set", "lo", "up"]))
            await _plugged(bridge, number, "eth0", hosts[name].ip, hosts[name].inside([]))
        yield Network(hosts, address, bridge)


async def _holder(owned: AsyncExitStack, environment: Mapping[str, str]) -> int:
    """Start a process in its own network namespace; return its id."""
    holder = await asyncio.create_subprocess_exec(
        *("unshare", "--net", "sh", "-c", "echo; exec sleep infinity"),
        env={**os.environ, **environment},
        stdout=asyncio.subprocess.PIPE,
    )
    owned.push_async_callback(_kill, holder)
    assert holder.stdout is not None  # noqa: S101 - it is a pipe
    await holder.stdout.readline()  # it is in its namespace
    return holder.pid


async def _own_port(bridge: int) -> tuple[str, int]:
    """Connect this process's namespace; return its device name and the campaign's number."""
    for campaign in range(MAX_CAMPAIGNS):
        device = DEVICE.format(campaign)
        if not Path("/sys/class/net", device).exists():  # noqa: ASYNC240 - not a disk
            await _run(_port_command(bridge, OWN, device, os.getpid()))
            return device, campaign
    raise TltError(f"{MAX_CAMPAIGNS} campaigns run on this machine")


def _port(number: int) -> str:
    return f"port{number}"


def _port_command(bridge: int, number: int, device: str, pid: int) -> list[str]:
    peer = ("peer", "name", device, "netns", str(pid))
    return _inside(bridge, ["ip", "link", "add", "name", _port(number), "type", "veth", *peer])


async def _plugged(bridge: int, number: int, device: str, ip: str, inside: Sequence[str]) -> None:
    """Configure both ends of a cable."""
    await _run(_inside(bridge, ["ip", "link", "set", _port(number), "master", BRIDGE, "up"]))
    await _run([*inside, "ip", "address", "add", f"{ip}/24", "dev", device])
    await _run([*inside, "ip", "link", "set", device, "up"])


def _inside(pid: int, command: Sequence[str]) -> list[str]:
    return ["nsenter", f"--net=/proc/{pid}/ns/net", *command]


async def _run(command: Sequence[str], text: str = "") -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate(text.encode())
    if process.returncode:
        raise TltError(f"{' '.join(command)}: {errors.decode().strip()}")


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
