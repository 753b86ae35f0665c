"""Brings workers to the served release, each independently."""

import random

from tlt_common.aio import Blocks
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.errors import TltError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_gateway.weights.release import Release
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)

PEERS = 4
"""Peers offered to a joining worker, chosen at random so that many that join spread over those that serve."""


class Joins:
    """Brings workers forward concurrently. A newer release ends joins at the older one."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._running = Blocks()

    def supersede(self) -> None:
        """End all joins, since another release is served. The pool passes their workers to `join` again."""
        self._running.end()

    async def join(self, worker: PooledWorker, release: Release, whole: Release) -> WorkerInfo | None:
        """
        Bring a worker to `release`, then let it accept requests. If that is an adapter, the worker gets the `whole`
        weights first unless it has them. Failures are logged; the worker stays behind.

        Returns the state of the worker, or None if it refuses the weights themselves.
        """
        info = None
        try:
            info = await self._pool.fresh(worker)
            if info.served.id < release.id:
                self._pool.behind(worker, info)
                async with self._running.until_ended():
                    for each in _missing(info, release, whole):
                        if not await self._bring_forward(worker, each):
                            return info
                info = await self._pool.fresh(worker)
        except TimeoutError:
            log.info("join_superseded", worker=worker.name, policy_version=release.id.version)
            return info
        except UnavailableError as error:
            self._pool.lose(worker, error.message)
        except TltError as error:
            metrics.GATEWAY_UPDATE_FAILURES.labels(phase="bring_forward").inc()
            log.warning("bring_forward_failed", worker=worker.name, error=error.message)
            if isinstance(error, WeightsError) and not isinstance(error, WeightsUnreadableError):
                return None
        else:
            if info.served.id == self._pool.served:
                self._pool.ready(worker, info)
        return info

    async def _bring_forward(self, worker: PooledWorker, release: Release) -> bool:
        """Stage and commit the release; return False if no source can provide it."""
        if not await self._stage(worker, release):
            return False
        await worker.remote.commit(release.id)
        log.info("worker_brought_forward", worker=worker.name, policy_version=release.id.version)
        return True

    async def _stage(self, worker: PooledWorker, release: Release) -> bool:
        peers = [
            peer.address
            for peer in self._pool.workers
            if peer.state is PooledState.READY
            and peer.info is not None
            and release.id in {peer.info.served.id, peer.info.served.whole}
        ]
        order = release.order(*random.sample(peers, min(PEERS, len(peers))), joining=True)
        direct = release.direct(joining=True)
        if order.uri is not None or order.peers:
            try:
                await worker.remote.stage(order)
            except WeightsUnreadableError as error:
                if direct is None:
                    raise
                log.info("sending_directly", worker=worker.name, reason=error.message)
                await worker.remote.stage(*direct)
        elif direct is not None:
            await worker.remote.stage(*direct)
        else:
            return False
        return True


def _missing(info: WorkerInfo, release: Release, whole: Release) -> tuple[Release, ...]:
    """Return what a worker that is behind needs, in order."""
    if release.adapter_base is None or info.served.whole == whole.id:
        return (release,)
    return whole, release
