"""Pauses of generation, at all gateways of the fleet."""

import asyncio

from tlt_common.domain.pause import PauseMode
from tlt_common.errors import TltError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.admission import Admission
from tlt_gateway.dispatch import Dispatch
from tlt_gateway.peers import Peers
from tlt_gateway.pooled_worker import PooledWorker
from tlt_gateway.worker_pool import WorkerPool

log = get_logger(__name__)


class Pauses:
    """While generation is paused, requests queue."""

    def __init__(self, pool: WorkerPool, admission: Admission[PooledWorker], dispatch: Dispatch, peers: Peers) -> None:
        self._pool = pool
        self._admission = admission
        self._dispatch = dispatch
        self._peers = peers

    @property
    def paused(self) -> bool:
        """Whether this gateway starts no requests."""
        return self._admission.held

    async def pause(self, mode: PauseMode, *, from_peer: bool = False, authorization: str | None = None) -> None:
        """
        Start no request until `proceed`, at any gateway. Returns when requests have left the workers as `mode` says.

        Args:
            mode: What happens to running requests.
            from_peer: The caller is a peer, which calls the other peers itself.
            authorization: The caller's credential, passed on to peers.

        Raises:
            UnavailableError: A peer, named in the message, may go on. Generation is not paused then.
        """
        self._admission.hold()
        is_paused = from_peer
        try:
            if from_peer:
                await self._pause_here(mode)
            else:
                await asyncio.gather(self._pause_here(mode), self._peers.pause(mode, authorization=authorization))
            is_paused = True
        finally:
            if not is_paused:
                await asyncio.shield(self._undo(authorization))
        log.info("generation_paused", mode=mode.value)

    async def proceed(self, *, from_peer: bool = False, authorization: str | None = None) -> None:
        """
        Start requests again, at all gateways.

        Raises:
            UnavailableError: A peer, named in the message, may still be paused; repeat the call.
        """
        self._admission.proceed()
        if not from_peer:
            await self._peers.proceed(authorization=authorization)
        log.info("generation_proceeds")

    async def _pause_here(self, mode: PauseMode) -> None:
        match mode:
            case PauseMode.ABORT:
                self._dispatch.abort_all()
            case PauseMode.KEEP:
                await asyncio.gather(*(self._dispatch.hand_over(worker, after_s=0.0) for worker in self._pool.workers))
            case PauseMode.WAIT:
                await self._dispatch.until_idle()

    async def _undo(self, authorization: str | None) -> None:
        try:
            await self.proceed(authorization=authorization)
        except TltError as error:
            log.warning("pause_not_undone", error=error.message)
