"""The two phases of an update: all workers stage the weights, then all switch, and none waits long for the slowest."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.weights import ReleaseId, Staged
from tlt_common.errors import (
    InvalidRequestError,
    StaleVersionError,
    TltError,
    UnavailableError,
    WeightsError,
    WeightsUnreadableError,
)
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.digest import contradict
from tlt_common.weights.received_spool import ReceivedSpool
from tlt_gateway.weights.release import Release
from tlt_gateway.weights.stage_chain import StageChain
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRelease:
    """A release and the workers that are ready to switch to it."""

    id: ReleaseId
    """With the digest of what was staged."""
    workers: tuple[PooledWorker, ...]


class TwoPhases:
    """
    Updates workers together.

    Only a refusal of the weights themselves, or another update that wins, stops an update. A worker that is
    unreachable, late, or cannot read or store the weights is left behind, and joins later.
    """

    def __init__(self, pool: WorkerPool, *, straggler_s: float) -> None:
        self._pool = pool
        self._straggler_s = straggler_s

    async def stage(self, release: Release, incoming: ReceivedSpool | None) -> StagedRelease:
        """
        Stage the weights; if a worker refuses them, discard them everywhere.

        Raises:
            WeightsError: A worker, named in the message, refused the weights.
            StaleVersionError: Another update won.
            UnavailableError: No worker is available.
        """
        workers = self._participants()
        if not workers:
            raise UnavailableError("no worker is available for the weights update")
        if incoming is not None and release.shared:
            await incoming.log.until_complete()
        chain = StageChain(release, workers)
        outcomes = await self._each(chain.workers, chain.stage, vetoes=_vetoes)
        staged = {worker: outcome for worker, outcome in outcomes.items() if isinstance(outcome, Staged)}
        try:
            self._raise_veto(outcomes)
            if incoming is not None:
                await incoming.log.until_complete()
            digest = incoming.digest if incoming is not None else next((s.digest for s in staged.values()), "")
            for worker, found in list(staged.items()):
                if contradict(found.digest, digest):
                    raise WeightsError(f"worker {worker.name} read other weights than the others from {release.uri}")
            if not staged:
                raise _first_error(outcomes)
        except TltError:
            await self._each(workers, lambda worker: worker.remote.discard(release.id))
            raise
        self._leave_behind(outcomes, phase="stage")
        return StagedRelease(id=replace(release.id, digest=digest), workers=tuple(staged))

    async def commit(self, release: Release, workers: Iterable[PooledWorker]) -> dict[PooledWorker, WorkerInfo]:
        """
        Switch the workers; return those that did, with their new state.

        Raises:
            TltError: None did.
        """
        outcomes = await self._each(workers, lambda worker: worker.remote.commit(release.id))
        committed = {
            worker: replace(worker.info, policy_version=release.id.version, release=release.served)
            for worker, outcome in outcomes.items()
            if outcome is None and worker.info is not None
        }
        self._leave_behind(outcomes, phase="commit")
        if not committed:
            raise _first_error(outcomes)
        return committed

    def _participants(self) -> list[PooledWorker]:
        """Return the workers that serve requests. One that is joining would delay all; it is brought forward later."""
        answering = [worker for worker in self._pool.workers if worker.answers]
        return [worker for worker in answering if worker.state is not PooledState.BEHIND] or answering

    async def _each(
        self,
        workers: Iterable[PooledWorker],
        call: Callable[[PooledWorker], Awaitable[Result]],
        *,
        vetoes: Callable[[TltError], bool] = lambda _error: False,
    ) -> dict[PooledWorker, Result | TltError]:
        return await each(workers, call, straggler_s=self._straggler_s, vetoes=vetoes)

    def _raise_veto(self, outcomes: Mapping[PooledWorker, Staged | TltError]) -> None:
        for worker, outcome in outcomes.items():
            if isinstance(outcome, TltError) and _vetoes(outcome):
                metrics.GATEWAY_UPDATE_FAILURES.labels(phase="stage").inc()
                raise _named(worker, outcome)

    def _leave_behind(self, outcomes: Mapping[PooledWorker, object], *, phase: str) -> None:
        for worker, outcome in outcomes.items():
            if not isinstance(outcome, TltError):
                continue
            metrics.GATEWAY_UPDATE_FAILURES.labels(phase=phase).inc()
            log.error("left_behind", worker=worker.name, phase=phase, error=outcome.message)
            if worker.info is None or isinstance(outcome, UnavailableError):
                self._pool.lose(worker, outcome.message)
            else:
                self._pool.behind(worker, worker.info)


def _vetoes(error: TltError) -> bool:
    """Return whether an error says something of the weights or the update, rather than of one worker."""
    if isinstance(error, WeightsUnreadableError):
        return False
    return isinstance(error, WeightsError | InvalidRequestError | StaleVersionError)


def _first_error(outcomes: Mapping[PooledWorker, object]) -> TltError:
    return next(_named(worker, error) for worker, error in outcomes.items() if isinstance(error, TltError))


def _named(worker: PooledWorker, error: TltError) -> TltError:
    return type(error)(f"worker {worker.name}: {error.message}", field=error.field)


async def each(
    workers: Iterable[PooledWorker],
    call: Callable[[PooledWorker], Awaitable[Result]],
    *,
    straggler_s: float,
    vetoes: Callable[[TltError], bool] = lambda _error: False,
) -> dict[PooledWorker, Result | TltError]:
    """
    Call all workers; return the result or error of each.

    Once the first call has succeeded, the others get as long again as it took, at least `straggler_s` seconds. Then
    they are cancelled, and their error is UnavailableError. An error that `vetoes` cancels them at once.
    """
    loop = asyncio.get_running_loop()
    started_s, deadline_s = loop.time(), float("inf")

    async def outcome(worker: PooledWorker) -> Result | TltError:
        try:
            return await call(worker)
        except TltError as error:
            return error

    async with asyncio.TaskGroup() as group:
        tasks = {worker: group.create_task(outcome(worker), name=f"update {worker.name}") for worker in workers}
        pending = set(tasks.values())
        while pending:
            wait_s = None if deadline_s == float("inf") else max(0.0, deadline_s - loop.time())
            done, pending = await asyncio.wait(pending, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                break
            results = [task.result() for task in done if not task.cancelled()]
            if any(isinstance(result, TltError) and vetoes(result) for result in results):
                break
            if results and not all(isinstance(result, TltError) for result in results):
                deadline_s = min(deadline_s, loop.time() + max(straggler_s, loop.time() - started_s))
        for task in pending:
            task.cancel()
    late = f"not done {straggler_s:g} s after the first worker"
    return {worker: UnavailableError(late) if task.cancelled() else task.result() for worker, task in tasks.items()}
