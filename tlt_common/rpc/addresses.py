"""Where a process can be reached: free before it starts, written to a file once it takes calls."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from tlt_common.errors import ConfigError

_current: ContextVar["_Addresses | None"] = ContextVar("addresses", default=None)


class _Addresses:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._known: dict[str, str] = {}

    def add(self, kind: str, address: str) -> None:
        self._known[kind] = address
        if "grpc" in self._known:
            self._write()

    def _write(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        partial = self._file.with_suffix(".partial")
        partial.write_text(json.dumps(self._known))
        partial.replace(self._file)  # whoever polls for the file never reads half of it


@contextmanager
def announced_in(file: Path | None) -> Iterator[None]:
    """Write what is announced within to `file`, as JSON of kind to address; remove it afterwards."""
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
    """Tell whoever started this process where to find it. The file appears with kind "grpc", so that comes last."""
    if known := _current.get():
        known.add(kind, address)


def require_free(address: str, *, named: str) -> None:
    """
    Look for a taken port now, before anything slow begins.

    Args:
        address: host:port; port 0 is always free.
        named: What the user knows it by: a field, or an option with its dashes.

    Raises:
        ConfigError: Somebody listens there, or this machine has no such host.
    """
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            raise ConfigError(f"{named}: {address} is taken; choose another or 0", field=named.lstrip("-")) from error
