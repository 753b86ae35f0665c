"""Releases and resumes the device memory of all workers, for RL trainers that share their devices."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class FleetMemory:
    """
    Device memory of the fleet, released and resumed on all workers or on none. Requests that arrive meanwhile are
    queued.

    Args:
        running: Returns how many requests of this gateway run.
    """

    def __init__(self, pool: WorkerPool, running: Callable[[], int]) -> None:
        self._pool = pool
        self._running = running

    @property
    def releasable(self) -> bool:
        """Whether all workers that answer can release their memory, and at least one does."""
        infos = [worker.info for worker in self._answering()]
        return bool(infos) and all(info is not None and info.releasable for info in infos)

    @property
    def released(self) -> bool:
        """Whether an RL trainer holds the devices of any worker."""
        return any(worker.info is not None and worker.info.released for worker in self._answering())

    async def release(self, tags: Iterable[str]) -> None:
        """
        Release memory on all workers. Without tags, release everything.

        Raises:
            InvalidRequestError: Requests are running.
            UnavailableError: A worker, named in the message, did not release it. Nothing is released then.
        """
        if running := self._running():
            raise InvalidRequestError(
                f"tags: {running} requests are running; repeat the call once they have ended", field="tags"
            )
        wanted, workers = list(tags), self._answering()
        try:
            await self._all(workers, "release", lambda worker: worker.remote.release_memory(wanted))
        except TltError:
            await asyncio.gather(*(worker.remote.resume_memory(wanted) for worker in workers), return_exceptions=True)
            raise

    async def resume(self, tags: Iterable[str]) -> None:
        """
        Resume memory on all workers. Without tags, resume everything.

        Raises:
            UnavailableError: A worker, named in the message, did not resume. The call may be repeated.
        """
        wanted = list(tags)
        await self._all(self._answering(), "resume", lambda worker: worker.remote.resume_memory(wanted))

    def _answering(self) -> list[PooledWorker]:
        return [worker for worker in self._pool.workers if worker.answers]

    async def _all(
        self, workers: list[PooledWorker], what: str, call: Callable[[PooledWorker], Coroutine[None, None, None]]
    ) -> None:
        results = await asyncio.gather(*(call(worker) for worker in workers), return_exceptions=True)
        for worker, result in zip(workers, results, strict=True):
            if isinstance(result, InvalidRequestError):
                raise result
            if isinstance(result, TltError):
                raise UnavailableError(f"{worker.name} did not {what} its memory: {result.message}") from result
            if isinstance(result, BaseException):
                raise result
        log.info("memory_moved", what=what, workers=len(workers))
