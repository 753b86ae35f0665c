"""Network namespaces connected by the switch. They require root, /dev/net/tun, iproute2 and util-linux."""

import asyncio
import ctypes
import errno
import fcntl
import os
import shutil
import struct
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tlt_bench.campaign.network.rules import Rules
from tlt_common.errors import TltError

TUN = Path("/dev/net/tun")
SET_INTERFACE = 0x400454CA
"""TUNSETIFF."""
TUN_WITHOUT_HEADER = 0x1001
"""IFF_TUN | IFF_NO_PI."""
NETWORK = "198.18.{}"
"""In the range for benchmarks of network devices (RFC 2544), which no network uses. Each campaign on a machine uses the
first network whose device does not exist."""
DEVICE = "tlt-camp-{}"
MAX_CAMPAIGNS = 250
MTU_BYTES = 9000
OWN = 1
"""Number of this process's own host, which stays in its namespace."""
PROGRAMS = ("ip", "unshare", "nsenter")


def why_not() -> str:
    """Return why this machine cannot run namespaces; empty if it can."""
    if os.geteuid() != 0:
        return "network namespaces require root"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} is missing: load the kernel module tun"
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"{', '.join(missing)} not installed: install Debian's iproute2 and util-linux" if missing else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A namespace."""

    number: int
    """Last byte of its address."""
    ip: str
    pid: int
    """A process that holds the namespace; its end releases it."""

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return the command line that runs a command inside. The process id stays the same."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]


class Network:
    """Hosts by name, connected by a switch."""

    def __init__(self, hosts: Mapping[str, Host], switch: asyncio.subprocess.Process) -> None:
        self.hosts = hosts
        self._switch = switch

    async def apply(self, rules: Rules) -> None:
        """
        Apply rules to all packets from now on.

        Raises:
            TltError: The switch has ended.
        """
        assert self._switch.stdin is not None  # noqa: S101 - both are pipes
        assert self._switch.stdout is not None  # noqa: S101
        self._switch.stdin.write(rules.model_dump_json().encode() + b"\n")
        if not await self._switch.stdout.readline():
            raise TltError("the campaign's network switch has ended")


@asynccontextmanager
async def connected(names: Sequence[str], environment: Mapping[str, str]) -> AsyncIterator[Network]:
    """
    Run hosts of these names within the block, reachable from this process.

    Args:
        names: Names of hosts.
        environment: Variables that mark the processes that hold the namespaces, so that a guard kills them.
    """
    marked = {**os.environ, **environment}
    async with AsyncExitStack() as owned:
        own, campaign = _own_device()
        network_ip, hosts = NETWORK.format(campaign), {}
        for number, name in enumerate(names, OWN + 1):
            holder = await asyncio.create_subprocess_exec(
                "unshare", "--net", "sh", "-c", "echo; exec sleep infinity", env=marked, stdout=asyncio.subprocess.PIPE
            )
            owned.push_async_callback(_kill, holder)
            assert holder.stdout is not None  # noqa: S101 - it is a pipe
            await holder.stdout.readline()  # it is in its namespace
            hosts[name] = Host(number=number, ip=f"{network_ip}.{number}", pid=holder.pid)
        devices = {host.number: _device(host.pid, campaign) for host in hosts.values()} | {OWN: own}
        try:
            for host in hosts.values():
                await _configure(host.inside, host.ip, campaign)
            await _configure(list, f"{network_ip}.{OWN}", campaign)
            switch = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "tlt_bench.campaign.network.switch"),
                *(f"{number}={descriptor}" for number, descriptor in devices.items()),
                env=marked,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                pass_fds=tuple(devices.values()),
            )
            owned.push_async_callback(_kill, switch)
        finally:
            for descriptor in devices.values():
                os.close(descriptor)  # the switch has them; the devices disappear with it
        network = Network(hosts, switch)
        await network.apply(Rules())
        yield network


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _own_device() -> tuple[int, int]:
    """Create a device in this process's namespace; return its descriptor and the number of the campaign."""
    for campaign in range(MAX_CAMPAIGNS):
        with suppress(FileExistsError):
            return _device(os.getpid(), campaign), campaign
    raise TltError(f"{MAX_CAMPAIGNS} campaigns run on this machine")


def _device(pid: int, campaign: int) -> int:
    """
    Create the TUN device in the namespace of a process; return its descriptor.

    A thread enters the namespace, since that changes its network for good.

    Raises:
        FileExistsError: The namespace has such a device.
        TltError: The kernel refused.
    """
    made: list[int] = []
    refused: list[OSError] = []

    def make() -> None:
        try:
            made.append(_device_there(pid, DEVICE.format(campaign)))
        except OSError as error:
            refused.append(error)

    thread = threading.Thread(target=make, name=f"namespace-{pid}")
    thread.start()
    thread.join()
    if refused:
        if refused[0].errno == errno.EBUSY:
            raise FileExistsError(DEVICE.format(campaign))
        raise TltError(f"no network device in the namespace of process {pid}: {refused[0]}") from refused[0]
    return made[0]


def _device_there(pid: int, name: str) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
        if libc.setns(namespace.fileno(), 0) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    descriptor = os.open(TUN, os.O_RDWR)
    try:
        fcntl.ioctl(descriptor, SET_INTERFACE, struct.pack("16sH", name.encode(), TUN_WITHOUT_HEADER))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


async def _configure(inside: Callable[[Sequence[str]], list[str]], ip: str, campaign: int) -> None:
    device = DEVICE.format(campaign)
    commands = [
        ["ip", "address", "add", f"{ip}/24", "dev", device],
        ["ip", "link", "set", device, "mtu", str(MTU_BYTES), "up"],
        ["ip", "link", "set", "lo", "up"],
    ]
    for command in commands:
        process = await asyncio.create_subprocess_exec(*inside(command), stderr=asyncio.subprocess.PIPE)
        _, errors = await process.communicate()
        if process.returncode:
            raise TltError(f"{' '.join(command)}: {errors.decode().strip()}")
