"""The slots of all workers, from which `Admission` assigns the next request."""

import asyncio
from collections.abc import Hashable

from tlt_common.domain.ids import WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import NotFoundError
from tlt_gateway.queue.affinity import keys_of
from tlt_gateway.queue.placing import Placing
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.routing import serves
from tlt_gateway.workers.worker_pool import WorkerPool


class WorkerSlots:
    """
    Args:
        pool: The workers.
        spill_load: As for `Placing`.
        affinity_tokens: As for `Placing`.
    """

    def __init__(self, pool: WorkerPool, *, spill_load: float, affinity_tokens: int) -> None:
        self._pool = pool
        self.placing = Placing(spill_load=spill_load, affinity_tokens=affinity_tokens)
        """Decides."""
        self._ids: dict[PooledWorker, WorkerId] = {}
        """Ids of the workers that accept requests."""
        self._workers: dict[WorkerId, PooledWorker] = {}
        """Workers in the table: of two with the same id, the one that changed last."""
        pool.when_changed(self._see)

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been available; None while one is available."""
        return self._pool.absent_since_s

    @property
    def free(self) -> int:
        """Number of requests that would run at once."""
        return self.placing.table.free

    def acquire(self, prompt: Prompt) -> PooledWorker | None:
        """
        Reserve a slot on the best worker; return None while all are full.

        Args:
            prompt: The request.

        Raises:
            NotFoundError: The requested policy version is not served.
        """
        if not serves(self._pool.version, prompt):
            raise NotFoundError(
                f"prompt.policy_version is {prompt.policy_version}; accepted: {self._pool.version} (served), or unset",
                field="prompt.policy_version",
            )
        chosen = self.placing.place(
            keys_of(prompt) if self.free else (),
            prompt_tokens=len(prompt.token_ids),
            tokens=len(prompt.token_ids) + len(prompt.prefix_token_ids),
            served=self._pool.version,
            now_s=asyncio.get_running_loop().time(),
            required=None if prompt.policy_version is None else self._pool.version,
        )
        if chosen is None:
            return None
        worker = self._workers[chosen.worker_id]
        worker.assigned += 1
        self._see(worker)
        worker.demands.changed()
        return worker

    @property
    def offer(self) -> Hashable:
        """Summary of what present workers serve. While it is unchanged, so is `may_ever_run` for every request."""
        return self._pool.version, self.placing.table.versions

    def may_ever_run(self, prompt: Prompt) -> bool:
        """Whether any present worker would run a request if it had a free slot. True while no worker is present."""
        if prompt.policy_version is None:
            return True
        versions = self.placing.table.versions
        return not versions or self._pool.version in versions

    def release(self, worker: PooledWorker) -> None:
        """Release a slot."""
        worker.assigned -= 1
        self._see(worker)

    def _see(self, worker: PooledWorker) -> None:
        """Update the table after a worker changed."""
        candidate, former = worker.candidate(), self._ids.pop(worker, None)
        is_same = candidate is not None and candidate.worker_id == former
        if former is not None and not is_same and self._workers.get(former) is worker:
            del self._workers[former]
            self.placing.table.drop(former)
        if candidate is not None:
            self._ids[worker] = candidate.worker_id
            self._workers[candidate.worker_id] = worker
            self.placing.table.put(candidate)
