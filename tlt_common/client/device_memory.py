"""Releases the memory of the workers' devices to a trainer that shares them, and takes it back."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final, Never

from tlt_common.client.gateways import Gateways
from tlt_common.client.retrying import retried
from tlt_common.domain.fleet import memory_tags, require_release_limit
from tlt_common.errors import TltError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import rollout as wire

log = get_logger(__name__)

RELEASE_S: Final = 3600.0
"""Default of `limit_s`: longer than most steps learn."""
RENEWALS: Final = 3
"""Renewals within the limit of a release."""


class DeviceMemory:
    """
    What this client has released. Calls are made one after another, since a renewal that overtook `resume` would
    release again. They have no deadline of their own: gateways set one for what workers do, such as loading weights.
    """

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self._released: frozenset[str] = frozenset()
        self._turn = asyncio.Lock()

    async def release(self, tags: Iterable[str], *, limit_s: float | None) -> int:
        """Release memory; return the number of workers. See `Client.release`."""
        wanted = memory_tags(tags)
        require_release_limit(limit_s)
        async with self._turn:
            workers = await self._release(wanted, limit_s)
            self._released |= wanted
        return workers

    async def resume(self, tags: Iterable[str]) -> int:
        """Resume memory; return the number of workers. See `Client.resume`."""
        wanted = memory_tags(tags)
        request = wire.pb.ResumeMemoryRequest(tags=sorted(wanted))

        async def call(stub: wire.AsyncStub) -> int:
            with translated():
                return (await stub.ResumeMemory(request)).worker_count

        async with self._turn:
            self._released -= wanted
            return await retried(self._gateways, call)

    @asynccontextmanager
    async def renewing(self, limit_s: float) -> AsyncIterator[None]:
        """Renew what is released while the block runs."""
        renewals = asyncio.create_task(self.renew(limit_s), name="renew the release")
        try:
            yield
        finally:
            renewals.cancel()
            await asyncio.gather(renewals, return_exceptions=True)

    async def renew(self, limit_s: float) -> Never:
        """Renew what is released until cancelled. A renewal that fails is logged: the next may succeed in time."""
        while True:
            await asyncio.sleep(limit_s / RENEWALS)
            async with self._turn:
                if not self._released:
                    continue
                try:
                    await self._release(self._released, limit_s)
                except TltError as error:
                    log.warning("release_not_renewed", error=error.message)

    async def _release(self, tags: frozenset[str], limit_s: float | None) -> int:
        request = wire.pb.ReleaseMemoryRequest(tags=sorted(tags), limit_s=limit_s)

        async def call(stub: wire.AsyncStub) -> int:
            with translated():
                return (await stub.ReleaseMemory(request)).worker_count

        return await retried(self._gateways, call)
