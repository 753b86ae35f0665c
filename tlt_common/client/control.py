"""Calls that concern the whole fleet: pauses of generation, and the memory of the workers' devices."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final, Never

from tlt_common.client.gateways import Gateways
from tlt_common.client.retrying import retried
from tlt_common.domain.fleet import memory_tags, require_release_limit
from tlt_common.domain.pause import PauseMode
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.rpc.errors import translated
from tlt_common.telemetry.log import get_logger
from tlt_common.wire import rollout as wire

log = get_logger(__name__)

CALL_S: Final = 20.0
"""Deadline of a pause, which waits for the workers and for the other gateways, and of its end."""
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


class FleetControl:
    """The calls of a client that no request and no weights belong to."""

    def __init__(self, gateways: Gateways) -> None:
        self._gateways = gateways
        self._memory = DeviceMemory(gateways)

    async def pause(self, mode: PauseMode | str = PauseMode.KEEP) -> None:
        """
        Pause generation at all gateways: requests queue until `proceed`. Weights may be published meanwhile.

        Args:
            mode: What happens to running requests: `keep` continues them later from their current tokens, `abort` ends
                them with FinishReason.ABORT, `wait` waits until they have finished.

        Raises:
            InvalidRequestError: The mode is unknown.
            UnavailableError: A gateway, named in the message, did not answer. Generation is not paused then.
        """
        if mode not in tuple(PauseMode):
            raise InvalidRequestError(f"mode is {mode!r}; accepted: {', '.join(PauseMode)}", field="mode")
        request = wire.pause_to_pb(PauseMode(mode))
        within_s = None if mode == PauseMode.WAIT else CALL_S

        async def call(stub: wire.AsyncStub) -> None:
            with translated():
                await stub.Pause(request, timeout=within_s)

        await retried(self._gateways, call)

    async def proceed(self) -> None:
        """End a pause. Does nothing if generation is not paused."""

        async def call(stub: wire.AsyncStub) -> None:
            with translated():
                await stub.Proceed(wire.pb.ProceedRequest(), timeout=CALL_S)

        await retried(self._gateways, call)

    async def release(self, tags: Iterable[str] = (), *, limit_s: float | None = RELEASE_S) -> int:
        """
        Release the devices of all workers to a trainer that shares them, or of none; return the number of workers.

        Engines release their memory, and spot trainers exit. Requests queue until `resume`. Repeating the call releases
        what is not yet released, and sets the limit anew.

        Args:
            tags: What to release: "weights", "kv_cache", "cuda_graph"; empty releases all.
            limit_s: Seconds after which workers resume by themselves, in case the trainer has died; None sets no limit.

        Raises:
            InvalidRequestError: A tag is unknown, requests are running, or workers run without `engine.releasable`.
            UnavailableError: A worker, named in the message, did not release its memory. The others have resumed.
        """
        return await self._memory.release(tags, limit_s=limit_s)

    async def resume(self, tags: Iterable[str] = ()) -> int:
        """
        Take released memory back, with the weights served before; return the number of workers. Idempotent.

        Without tags, all is resumed. New weights can be published once "weights" are resumed, before there is room for
        the rest.

        Raises:
            InvalidRequestError: A tag is unknown.
            UnavailableError: A worker, named in the message, did not resume. The call may be repeated.
        """
        return await self._memory.resume(tags)

    @asynccontextmanager
    async def released(self, tags: Iterable[str] = (), *, limit_s: float = RELEASE_S) -> AsyncIterator[None]:
        """
        Release the devices inside the block, where the trainer has them, and resume at its end, whatever ends it.

        The release is renewed every third of `limit_s`, which needs the event loop: a block that computes for longer
        without awaiting needs a higher limit, or `BlockingClient`. Errors are those of `release` and `resume`.
        """
        await self._memory.release(tags, limit_s=limit_s)
        try:
            async with self._memory.renewing(limit_s):
                yield
        finally:
            await self._memory.resume(())
