"""Releases and resumes the device memory of all workers, for RL trainers that share their devices."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from math import isinf

from tlt_common.domain.fleet import WorkerInfo, memory_tags, require_release_limit
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class FleetMemory:
    """
    Device memory of the fleet, released and resumed on all workers or on none. Requests that arrive meanwhile are
    queued.

    What is released is known from the workers' reports alone, so that it does not depend on the gateway that was
    called: a worker that joins while others are released is released, too, before it may run anything.

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

    async def release(self, tags: Iterable[str], *, limit_s: float | None = None, field: str = "tags") -> int:
        """
        Release memory on all workers; return their number. Without tags, release everything. Repeating it releases what
        is not yet released, and sets the limit anew.

        Args:
            tags: A subset of MEMORY_TAGS.
            limit_s: Seconds after which workers resume by themselves; None sets no limit.
            field: The caller's name of the field at fault if workers keep their memory.

        Raises:
            InvalidRequestError: A tag or the limit is not accepted, requests are running, or the engines keep their
                memory.
            UnavailableError: A worker, named in the message, did not release it. What the others have released for this
                call is resumed.
        """
        wanted = memory_tags(tags)
        require_release_limit(limit_s)
        if not self.releasable:
            raise self._not_releasable(wanted, field)
        if running := self._running():
            raise InvalidRequestError(
                f"tags: {running} requests are running; repeat the call once they have ended", field="tags"
            )
        workers = self._answering()
        # Of a call that renews a release, nothing is undone: the trainer has these devices.
        undo = [(worker, tags) for worker in workers if (tags := sorted(wanted - _released(worker.info)))]
        is_released = False
        try:
            await self._all(
                workers, "release", lambda worker: worker.remote.release_memory(sorted(wanted), limit_s=limit_s)
            )
            is_released = True
        finally:
            if not is_released:  # or the caller has gone, which does not stop a worker that has begun
                resumed = (worker.remote.resume_memory(tags) for worker, tags in undo)
                await asyncio.shield(asyncio.gather(*resumed, return_exceptions=True))
        return len(workers)

    async def resume(self, tags: Iterable[str]) -> int:
        """
        Resume memory on all workers; return their number. Without tags, resume everything. Idempotent.

        Raises:
            InvalidRequestError: A tag is not accepted.
            UnavailableError: A worker, named in the message, did not resume. The call may be repeated.
        """
        wanted, workers = sorted(memory_tags(tags)), self._answering()
        await self._all(workers, "resume", lambda worker: worker.remote.resume_memory(wanted))
        return len(workers)

    async def admits(self, worker: PooledWorker) -> bool:
        """
        Release a worker that joins while a trainer has the devices of the others. Return whether it may be brought to
        the served weights, which it may not while its own are released. Failures are logged.
        """
        held = self._held_beside(worker)
        if held is not None and (new := sorted(_released(held) - _released(worker.info))):
            left_s = held.release_left_s
            try:
                await worker.remote.release_memory(new, limit_s=None if isinf(left_s) else max(left_s, 1.0))
                if self._held_beside(worker) is None:  # resumed meanwhile, by a call that this worker missed
                    await worker.remote.resume_memory(new)
                await self._pool.fresh(worker)
            except TltError as error:
                log.warning("joining_worker_not_released", worker=worker.name, error=error.message)
                return False
            log.info("joining_worker_released", worker=worker.name, tags=new)
        return "weights" not in _released(worker.info)

    def _held_beside(self, worker: PooledWorker) -> WorkerInfo | None:
        """Return the state of another worker whose devices the trainer has."""
        infos = (one.info for one in self._answering() if one is not worker)
        return next((info for info in infos if info is not None and info.released_tags), None)

    def _answering(self) -> list[PooledWorker]:
        return [worker for worker in self._pool.workers if worker.answers]

    async def _all(
        self, workers: list[PooledWorker], what: str, call: Callable[[PooledWorker], Coroutine[None, None, None]]
    ) -> None:
        results = await asyncio.gather(*(call(worker) for worker in workers), return_exceptions=True)
        for worker, result in zip(workers, results, strict=True):
            if isinstance(result, InvalidRequestError):
                raise InvalidRequestError(f"{worker.name}: {result.message}", field=result.field) from result
            if isinstance(result, TltError):
                raise UnavailableError(f"{worker.name} did not {what} its memory: {result.message}") from result
            if isinstance(result, BaseException):
                raise result
        log.info("memory_moved", what=what, workers=len(workers))

    def _not_releasable(self, wanted: frozenset[str], field: str) -> InvalidRequestError:
        kept = [worker.name for worker in self._answering() if worker.info is None or not worker.info.releasable]
        whose = ", ".join(kept[:3]) or "no worker is reachable"
        return InvalidRequestError(
            f"releasing {', '.join(sorted(wanted))} is not supported by these workers ({whose}): they keep their "
            "memory, and train drafters on their devices while no request runs. If your trainer needs the devices, "
            "start the workers with engine.releasable, or stop them first",
            field=field,
        )


def _released(info: WorkerInfo | None) -> frozenset[str]:
    return frozenset(info.released_tags if info is not None else ())
