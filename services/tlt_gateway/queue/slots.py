"""The slots of all workers, for `Admission`: which worker runs the next request."""

import asyncio

from tlt_common.domain.ids import WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import NotFoundError
from tlt_gateway.queue.affinity import Affinity, keys_of
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.routing import Candidate, choose, serves
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
        self._spill_load = spill_load
        self._affinity_tokens = affinity_tokens
        self._affinity = Affinity()
        self.pack = 0
        """As for `choose`."""

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been available; None while one is."""
        return self._pool.absent_since_s

    @property
    def free(self) -> int:
        """Number of requests that would run at once."""
        return sum(candidate.free for candidate in self.candidates())

    def acquire(self, prompt: Prompt, *, beside: WorkerId | None = None) -> PooledWorker | None:
        """
        Reserve a slot on the best worker; return None while all are full.

        Args:
            prompt: The request.
            beside: Prefer this worker, to which it moves.

        Raises:
            NotFoundError: The requested policy version is not served.
        """
        if not serves(self._pool.version, prompt):
            raise NotFoundError(
                f"prompt.policy_version is {prompt.policy_version}; accepted: {self._pool.version} (served), or unset",
                field="prompt.policy_version",
            )
        candidates = self.candidates()
        if not any(candidate.has_room for candidate in candidates):
            return None
        keys = keys_of(prompt) if self._affinity_tokens else ()
        chosen = next((one for one in candidates if one.worker_id == beside and one.has_room), None)
        chosen = chosen or choose(
            candidates,
            version=prompt.policy_version and self._pool.version,
            spill_load=self._spill_load,
            cached=self._affinity.cached(
                keys, candidates, length=len(prompt.token_ids), version=self._pool.version, now_s=_now_s()
            ),
            affinity_tokens=self._affinity_tokens or 1,
            pack=self.pack,
        )
        if chosen is None:
            return None
        tokens = len(prompt.token_ids) + len(prompt.prefix_token_ids)
        self._affinity.sent(keys, chosen, tokens=tokens, version=self._pool.version, now_s=_now_s())
        worker = candidates[chosen]
        worker.assigned += 1
        worker.demands.changed()
        return worker

    def release(self, worker: PooledWorker) -> None:
        """Release a slot."""
        worker.assigned -= 1

    def forget(self, session_id: str, *, owner: str) -> bool:
        """Forget a session of an owner; return whether it was known."""
        return self._affinity.forget(session_id, owner=owner)

    def candidates(self) -> dict[Candidate, PooledWorker]:
        """Return the workers that accept requests."""
        return {candidate: worker for worker in self._pool.workers if (candidate := worker.candidate())}


def _now_s() -> float:
    return asyncio.get_running_loop().time()
