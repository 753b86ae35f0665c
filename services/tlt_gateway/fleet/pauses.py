"""Pauses of generation, at all gateways of the fleet."""

import asyncio
from collections.abc import Callable

from tlt_common.domain.pause import Pause, PauseMode
from tlt_common.errors import TltError, UnavailableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.fleet.peers import GatewayPeers
from tlt_gateway.queue.admission import Admission
from tlt_gateway.requests.requests import Requests
from tlt_gateway.workers.fleet_pause import FleetPause
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class Pauses:
    """
    Queues requests while generation is paused. A pause that is neither ended nor renewed expires.

    Args:
        pool: The workers, which pass the pause on to gateways that missed it.
        admission: The queue.
        requests: The requests.
        peers: The other gateways.
        max_s: Seconds for which a pause holds; None means until it is ended.
        changed: Called when a pause begins or ends, with whether generation is paused.
    """

    def __init__(
        self,
        pool: WorkerPool,
        admission: Admission[PooledWorker],
        requests: Requests,
        peers: GatewayPeers,
        *,
        max_s: float | None,
        changed: Callable[[bool], object] = lambda _: None,
    ) -> None:
        self._pool = pool
        self._admission = admission
        self._requests = requests
        self._peers = peers
        self._told = changed
        self._pause = FleetPause(max_s, self._changed)
        pool.share_pause(self._pause)

    @property
    def current(self) -> Pause:
        """The fleet's current pause."""
        return self._pause.current

    @property
    def paused(self) -> bool:
        """Whether this gateway holds back requests."""
        return self._pause.holds

    async def pause(self, mode: PauseMode, *, from_peer: Pause | None = None, authorization: str | None = None) -> None:
        """
        Start no requests at any gateway until `proceed` is called or the pause expires. Pausing again renews the pause.
        Returns once requests have left the workers as `mode` specifies.

        Args:
            mode: What happens to running requests.
            from_peer: The pause, if the caller is a peer, which calls the other peers itself.
            authorization: The caller's credential, passed on to peers.

        Raises:
            UnavailableError: A worker or a peer, named in the message, may not have paused, or the pause ended
                meanwhile. Generation is not paused then.
        """
        if from_peer is not None and from_peer.epoch:
            self._pause.hear(from_peer)
            await self._pause_here(mode)
            return
        pause, is_paused = self._pause.begin(), False
        try:
            peers = self._peers.pause(mode, pause, authorization=authorization) if from_peer is None else _nothing()
            await asyncio.gather(self._pause_here(mode), peers)
            is_paused = self._pause.holds and self.current.epoch == pause.epoch
        finally:
            if not is_paused and self.current.epoch == pause.epoch:
                await asyncio.shield(self._undo(from_peer, authorization))
        if not self._pause.holds:
            raise UnavailableError("the pause ended or expired (max_pause_s) before all requests left the workers")
        log.info("generation_paused", mode=mode.value, left_s=self.current.left_s)

    async def proceed(self, *, from_peer: Pause | None = None, authorization: str | None = None) -> None:
        """
        Resume starting requests at all gateways.

        Args:
            from_peer: The end of the pause, if the caller is a peer, which calls the other peers itself.
            authorization: The caller's credential, passed on to peers.

        Raises:
            UnavailableError: A peer, named in the message, may still be paused; repeat the call. It resumes once a
                worker tells it.
        """
        if from_peer is not None and from_peer.epoch:
            self._pause.hear(from_peer)
            return
        end = self._pause.end()
        if from_peer is None:
            await self._peers.proceed(end, authorization=authorization)
        log.info("generation_proceeds")

    def _changed(self, expired: bool) -> None:
        if self._pause.holds:
            self._admission.hold()
        else:
            self._admission.proceed()
        metrics.GATEWAY_PAUSED.set(self._pause.holds)
        self._told(self._pause.holds)
        if expired:
            metrics.GATEWAY_PAUSES_EXPIRED.inc()
            log.warning("pause_expired", advice="the trainer paused and did not continue; see max_pause_s")
        self._pool.tell_pause()

    async def _pause_here(self, mode: PauseMode) -> None:
        match mode:
            case PauseMode.ABORT:
                self._requests.abort_begun(hold=self._admission.holds)
            case PauseMode.KEEP:
                await self._requests.vacate()
            case PauseMode.WAIT:
                await self._requests.until_idle()

    async def _undo(self, from_peer: Pause | None, authorization: str | None) -> None:
        try:
            await self.proceed(from_peer=from_peer, authorization=authorization)
        except TltError as error:
            log.warning("pause_not_undone", error=error.message)


async def _nothing() -> None:
    """Do nothing: older peers call the others themselves and have no epochs."""
