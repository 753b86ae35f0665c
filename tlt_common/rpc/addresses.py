"""Addresses of a process: checked before it starts, and written to a file once it accepts calls."""

import asyncio
import ipaddress
import json
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from tlt_common.errors import ConfigError
from tlt_common.whole_file import write_whole

MAX_PORT = 65_535
PID = "pid"
"""Key of the process id in a port file; all others are kinds of addresses."""

_current: ContextVar["_Addresses | None"] = ContextVar("addresses", default=None)


class _Addresses:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._known = {PID: str(os.getpid())}

    def add(self, kind: str, address: str) -> None:
        self._known[kind] = address
        if "grpc" in self._known:
            self._write()

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._file, json.dumps(self._known).encode())


@contextmanager
def announced_in(file: Path | None) -> Iterator[None]:
    """
    Write the addresses announced within the block to `file`, as JSON of kind to address, with the process id.

    The file is removed at the end of the block.
    """
    if file is None:
        yield
        return
    token = _current.set(_Addresses(file))
    try:
        yield
    finally:
        _current.reset(token)
        file.unlink(missing_ok=True)


def announce(kind: str, address: str) -> None:
    """Publish an address in the port file. The file appears with kind "grpc", so announce that one last."""
    if known := _current.get():
        known.add(kind, address)


async def resolved(endpoints: Iterable[str]) -> list[str]:
    """
    Return the sorted addresses of host:port endpoints, including all addresses of a name. Names without addresses are
    omitted.
    """
    found: set[str] = set()
    for endpoint in endpoints:
        host, port = split(endpoint)
        with suppress(OSError):
            entries = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
            found |= {joined(str(entry[4][0]), port) for entry in entries}
    return sorted(found)


def split(address: str) -> tuple[str, str]:
    """Return host and port of `host:port`, either of which may be empty. Removes the brackets of an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def is_local(endpoint: str) -> bool:
    """Whether traffic to the endpoint stays on this machine."""
    if endpoint.startswith("unix:"):
        return True
    host, _ = split(endpoint)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def joined(host: str, port: int | str) -> str:
    """Return `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def with_port(address: str, port: int) -> str:
    """Return the address with another port on the same host."""
    return joined(split(address)[0], port)


def listener(host: str, port: int) -> socket.socket:
    """
    Return a socket that listens on a port of a host.

    `::` accepts IPv4, too, as gRPC does; on a machine without IPv6 it is 0.0.0.0.

    Raises:
        OSError: The port is in use, or the host is not one of this machine's.
        ValueError: The host is not a name.
    """
    if "\0" in host:
        raise ValueError("the host contains a null character")
    host.encode("idna")  # raises a ValueError; `create_server` would leave its socket open
    if host == "::" and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:  # without Python's addition, since every caller names the address itself
        raise OSError(error.errno, (error.strerror or str(error)).partition(" (while")[0]) from None


def require_free(address: str, *, named: str) -> None:
    """
    Fail before a slow start if an address is in use.

    Args:
        address: host:port; port 0 is always free.
        named: Configuration field, or option with its dashes, for messages.

    Raises:
        ConfigError: The address is in use, or this machine does not have the host.
    """
    host, port = split(address)
    if not (port.isascii() and port.isdigit() and int(port) <= MAX_PORT):
        raise ConfigError(
            f"{named}: {address!r} has no port; accepted: host:port with a port of 0 to {MAX_PORT}",
            field=named.lstrip("-"),
        )
    try:
        listener(host, int(port)).close()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{named}: {address} cannot be bound: {reason}; choose another or port 0",
            field=named.lstrip("-"),
        ) from error
