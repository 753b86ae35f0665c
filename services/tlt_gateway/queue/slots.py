"""The slots of all workers, for `Admission`: which worker runs the next request."""

import asyncio
from collections.abc import Hashable

from tlt_common.domain.prompt import Prompt
from tlt_common.errors import NotFoundError
from tlt_gateway.queue.affinity import keys_of
from tlt_gateway.queue.placing import Placing
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.routing import Candidate, serves
from tlt_gateway.workers.worker_pool import WorkerPool


class WorkerSlots:
    """
    Args:
        pool: The workers.
        spill_load: As for `choose`.
        affinity_tokens: As for `choose`; None ignores what workers have cached.
    """

    def __init__(self, pool: WorkerPool, *, spill_load: float, affinity_tokens: int | None) -> None:
        self._pool = pool
        self.placing = Placing(spill_load=spill_load, affinity_tokens=affinity_tokens)
        """Decides."""

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been available; None while one is."""
        return self._pool.absent_since_s

    @property
    def free(self) -> int:
        """Number of requests that would run at once."""
        return sum(candidate.free for candidate, _ in self.candidates())

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
        workers = self.candidates()
        if not any(candidate.has_room for candidate, _ in workers):
            return None
        chosen = self.placing.place(
            [candidate for candidate, _ in workers],
            keys_of(prompt) if self.placing.uses_keys else (),
            prompt_tokens=len(prompt.token_ids),
            tokens=len(prompt.token_ids) + len(prompt.prefix_token_ids),
            served=self._pool.version,
            now_s=asyncio.get_running_loop().time(),
            required=None if prompt.policy_version is None else self._pool.version,
        )
        if chosen is None:
            return None
        worker = next(worker for candidate, worker in workers if candidate is chosen)
        worker.assigned += 1
        worker.demands.changed()
        return worker

    @property
    def offer(self) -> Hashable:
        """What present workers serve: as long as it is the same, so is `may_ever_run` of every request."""
        return self._pool.version, frozenset(candidate.policy_version for candidate, _ in self.candidates())

    def may_ever_run(self, prompt: Prompt) -> bool:
        """Whether a present worker would run a request if it had room. While there is none, nobody knows."""
        if prompt.policy_version is None:
            return True
        workers = self.candidates()
        return not workers or any(candidate.policy_version == self._pool.version for candidate, _ in workers)

    def release(self, worker: PooledWorker) -> None:
        """Release a slot."""
        worker.assigned -= 1

    def candidates(self) -> list[tuple[Candidate, PooledWorker]]:
        """Return the workers that accept requests, and how routing sees each."""
        return [(candidate, worker) for worker in self._pool.workers if (candidate := worker.candidate())]
