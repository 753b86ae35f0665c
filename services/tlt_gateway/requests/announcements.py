"""Prompts that callers announce: checks them and divides them among the workers, which generate drafts ahead."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from tlt_common.domain.batch import Batch, at_index
from tlt_common.domain.prompt import Prompt
from tlt_common.errors import InvalidRequestError, TltError
from tlt_common.load import AnnouncedRequests
from tlt_common.rpc.security.access import caller_name
from tlt_common.telemetry.log import get_logger
from tlt_gateway.requests.batch import Batches, let_others_run, tokens_of
from tlt_gateway.requests.dispatch import Dispatch
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class Announcements:
    """Divides announced prompts among workers. Requests never wait for it, and only their number is kept."""

    def __init__(self, dispatch: Dispatch, pool: WorkerPool, batches: Batches) -> None:
        self._dispatch = dispatch
        self._pool = pool
        self._batches = batches
        self._numbers: dict[str, int] = {}
        self._untold: dict[int, int] = {}

    async def announce(self, batch: Batch) -> int:
        """
        Replace the caller's earlier announcement; return the number of workers that recorded this one.

        All responses to a prompt go to one worker, whose n-grams then find them. Seeds are omitted: with equal noise
        and almost equal weights, the samples would nearly equal the later responses.

        Raises:
            InvalidRequestError: A prompt does not fit the model, or all prompts together do not fit into the queue.
            UnavailableError: No worker became available to report the model.
        """
        samples = max(1, batch.samples_per_prompt)
        field = "prompts" if samples == 1 else "samples_per_prompt"
        requests = len(batch.prompts) * samples
        self._batches.require_fit(requests, tokens=tokens_of(batch), field=field)
        prompts = list[Prompt]()
        for place, prompt in enumerate(batch.prompts):
            prompts.append(await self._checked(prompt, place))
            await let_others_run(place)
        workers = [worker for worker in self._pool.workers if worker.state is PooledState.READY]
        parts = [prompts[place :: len(workers)] for place in range(len(workers))]
        told = await asyncio.gather(
            *(self._told(worker, part, samples) for worker, part in zip(workers, parts, strict=True))
        )
        self._untold[self._numbers.setdefault(caller_name.get(), len(self._numbers))] = requests
        return sum(told)

    def untold(self) -> tuple[AnnouncedRequests, ...]:
        """Return the number of requests announced since the last call."""
        found = tuple(AnnouncedRequests(caller=caller, count=count) for caller, count in self._untold.items())
        self._untold.clear()
        return found

    async def _checked(self, prompt: Prompt, place: int) -> Prompt:
        try:
            checked = await self._dispatch.checked(prompt)
        except InvalidRequestError as error:
            raise at_index(error, place) from None
        return replace(checked, sampling=replace(checked.sampling, seed=None), keep_key="", policy_version=None)

    async def _told(self, worker: PooledWorker, prompts: Sequence[Prompt], samples: int) -> bool:
        try:
            await worker.remote.announce(caller_name.get(), prompts, samples)
        except TltError as error:  # it generates nothing ahead, then
            log.info("announcement_lost", worker=worker.name, error=error.message)
            return False
        return bool(prompts)
