"""
Worker discovery through the coordinator, and without it through a DNS name and a saved list.

While the coordinator is unreachable, the pool keeps the known workers.
"""

import asyncio
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Never

from tlt_common.aio import Signal
from tlt_common.config.base import TlsSettings
from tlt_common.disk import on_disk
from tlt_common.documents import json_of
from tlt_common.rpc.addresses import resolved
from tlt_common.rpc.channel import connect
from tlt_common.rpc.follow import follow
from tlt_common.telemetry.log import get_logger
from tlt_common.whole_file import write_whole
from tlt_common.wire import coordinator as wire

log = get_logger(__name__)

RESOLVE_S = 5.0
"""Seconds between resolutions of the workers' DNS name."""

See = Callable[[Iterable[str]], None]


class KnownWorkers:
    """
    The addresses of all workers, from several sources. Keeps them in a file, for the next start.

    Args:
        see: Called with all addresses whenever they change.
        file: JSON list of addresses; None keeps nothing.
    """

    def __init__(self, see: See, *, file: Path | None = None) -> None:
        self._see = see
        self._file = file
        self._sources: dict[str, frozenset[str]] = {}
        self._shown: frozenset[str] = frozenset()
        self._changed = Signal()

    async def run(self) -> Never:
        """
        Use the addresses in the file unless a source has reported, then keep what the sources report, until cancelled.

        A damaged file is ignored. A hanging volume blocks only this task.
        """
        seen = self._changed.count
        if self._file is not None and (addresses := await on_disk(_read, self._file)) and not self._sources:
            self._shown = addresses
            self._see(addresses)
        while True:
            seen = await self._changed.beyond(seen)
            if self._file is not None and self._shown:  # a restarted coordinator lists none at first
                await on_disk(_write, self._file, self._shown)

    def report(self, source: str, addresses: Iterable[str]) -> None:
        """Set the addresses that a source lists."""
        self._sources[source] = frozenset(addresses)
        known = frozenset().union(*self._sources.values())
        if known != self._shown:
            self._shown = known
            self._see(known)
            self._changed.set()


def _read(file: Path) -> frozenset[str]:
    try:
        return frozenset(str(address) for address in json_of(file.read_bytes())) if file.exists() else frozenset()
    except (OSError, ValueError, TypeError) as error:
        log.warning("known_workers_unreadable", file=str(file), error=str(error))
        return frozenset()


def _write(file: Path, addresses: frozenset[str]) -> None:
    try:
        write_whole(file, json.dumps(sorted(addresses)).encode())
    except OSError as error:
        log.warning("known_workers_not_kept", file=str(file), error=str(error))


async def follow_fleet(
    coordinator: str, known: KnownWorkers, set_lending: Callable[[bool], None], *, tls: TlsSettings | None
) -> Never:
    """
    Report the workers that the coordinator lists, reconnecting as needed. Run until cancelled.

    Args:
        coordinator: Its host:port.
        known: Receives the workers.
        set_lending: Receives whether the coordinator lends idle workers; False while it is unreachable.
        tls: Settings of the connection.
    """
    addresses: dict[str, str] = {}

    def see(message: wire.pb.WatchFleetResponse) -> None:
        if not message.is_change:
            addresses.clear()
        for worker_id in message.removed_worker_ids:
            addresses.pop(worker_id, None)
        addresses.update({member.hello.worker_id: member.hello.address for member in message.members})
        known.report("coordinator", addresses.values())
        set_lending(message.lending)

    async with connect(coordinator, to="coordinator", tls=tls) as channel:
        stub = wire.Stub(channel)
        request = wire.pb.WatchFleetRequest(accepts_changes=True)
        await follow("coordinator", lambda: stub.WatchFleet(request), see, lost=lambda: set_lending(False))


async def follow_name(endpoint: str, known: KnownWorkers) -> Never:
    """Report all addresses of a DNS name, host:port, every few seconds. Run until cancelled."""
    while True:
        if addresses := await resolved([endpoint]):  # while the resolver fails, the last addresses remain
            known.report("name", addresses)
        await asyncio.sleep(RESOLVE_S)
