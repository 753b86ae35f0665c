"""
The two phases of an update: all workers stage the weights, then all switch. The slowest workers are left behind.

Only a refusal of the weights themselves, or another update that wins, stops an update. A worker that is unreachable,
late, or cannot read or store the weights is left behind, and joins later.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.weights import Staged, StageOrder
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
from tlt_common.weights.spool import Spool
from tlt_gateway.weights.release import Release
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)

STRAGGLER_S = 30.0
"""Seconds that the others have at least once the first worker is done, in each phase; as long as the first one took, if
that is longer. A worker that is left behind is updated later, while one that is waited for delays the whole fleet."""

Result = TypeVar("Result")


async def install(
    pool: WorkerPool, release: Release, incoming: Spool | None, *, straggler_s: float
) -> tuple[Release, dict[PooledWorker, WorkerInfo]]:
    """
    Update all workers to a release. Return it with its digest, and the workers that switched with their new state.

    Args:
        pool: The workers.
        release: The release.
        incoming: The spool in which the release arrives; None if workers read it from a source.
        straggler_s: As for `each`, in both phases.

    Raises:
        WeightsError: A worker, named in the message, refused the weights. They are discarded everywhere.
        StaleVersionError: Another update won.
        UnavailableError: No worker is available.
        TltError: No worker could switch.
    """
    digest, staged = await _stage(pool, release, incoming, straggler_s)
    release = replace(release, id=replace(release.id, digest=digest))
    outcomes = await each(staged, lambda worker: worker.remote.commit(release.id), straggler_s=straggler_s)
    committed = {
        worker: replace(worker.info, policy_version=release.id.version, release=release.served)
        for worker, outcome in outcomes.items()
        if outcome is None and worker.info is not None
    }
    _leave_behind(pool, outcomes, phase="commit")
    if not committed:
        raise _first_error(outcomes)
    return release, committed


async def _stage(
    pool: WorkerPool, release: Release, incoming: Spool | None, straggler_s: float
) -> tuple[str, list[PooledWorker]]:
    """
    Stage the weights; return their digest and the workers that staged them. If one refuses them, discard them
    everywhere.
    """
    workers = _participants(pool)
    if not workers:
        raise UnavailableError("no worker is available for the weights update")
    if incoming is not None and release.shared:
        await incoming.log.until_complete()
    chain = _Chain(release, workers)
    outcomes = await each(chain.workers, chain.stage, straggler_s=straggler_s, vetoes=_vetoes)
    staged = {worker: outcome for worker, outcome in outcomes.items() if isinstance(outcome, Staged)}
    try:
        _raise_veto(outcomes)
        if incoming is not None:
            await incoming.log.until_complete()
        digest = incoming.digest if incoming is not None else next((s.digest for s in staged.values()), "")
        for worker, found in staged.items():
            if contradict(found.digest, digest):
                raise WeightsError(f"worker {worker.name} read other weights than the others from {release.uri}")
        if not staged:
            raise _first_error(outcomes)
    except TltError:
        await each(workers, lambda worker: worker.remote.discard(release.id), straggler_s=straggler_s)
        raise
    _leave_behind(pool, outcomes, phase="stage")
    return digest, list(staged)


def _participants(pool: WorkerPool) -> list[PooledWorker]:
    """Return the workers that serve requests. A joining worker would delay all others; it is brought forward later."""
    answering = [worker for worker in pool.workers if worker.answers]
    return [worker for worker in answering if worker.state is not PooledState.BEHIND] or answering


def _raise_veto(outcomes: Mapping[PooledWorker, Staged | TltError]) -> None:
    for worker, outcome in outcomes.items():
        if isinstance(outcome, TltError) and _vetoes(outcome):
            metrics.GATEWAY_UPDATE_FAILURES.labels(phase="stage").inc()
            raise _named(worker, outcome)


def _leave_behind(pool: WorkerPool, outcomes: Mapping[PooledWorker, object], *, phase: str) -> None:
    for worker, outcome in outcomes.items():
        if not isinstance(outcome, TltError):
            continue
        metrics.GATEWAY_UPDATE_FAILURES.labels(phase=phase).inc()
        log.error("left_behind", worker=worker.name, phase=phase, error=outcome.message)
        if worker.info is None or isinstance(outcome, UnavailableError):
            pool.lose(worker, outcome.message)
        else:
            pool.behind(worker, worker.info)


def _vetoes(error: TltError) -> bool:
    """Return whether an error concerns the weights or the update rather than one worker."""
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

    Once the first call has succeeded, the others have the same time again, at least `straggler_s` seconds. Then they
    are cancelled with UnavailableError. An error that `vetoes` cancels them at once.
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


class _Chain:
    """
    One release and the workers that are to stage it.

    The gateway sends tensors to the first worker only; every other one fetches them from its predecessors, the nearest
    first. A worker that cannot, or whose predecessors have all failed, receives them from the gateway.
    """

    def __init__(self, release: Release, workers: Sequence[PooledWorker]) -> None:
        self._release = release
        # Neighbors in the list are often neighbors in the network, too.
        self._workers = sorted(workers, key=lambda worker: worker.address)
        self._failed: set[PooledWorker] = set()
        self._failure = asyncio.Event()

    @property
    def workers(self) -> list[PooledWorker]:
        """The workers in the order of the chain."""
        return self._workers

    async def stage(self, worker: PooledWorker) -> Staged:
        """
        Stage the release on one worker.

        Raises:
            TltError: It could not be reached, could not read or store the weights, or refused them.
        """
        try:
            return await self._stage(worker)
        except BaseException:
            self._failed.add(worker)
            failure, self._failure = self._failure, asyncio.Event()
            failure.set()
            raise

    async def _stage(self, worker: PooledWorker) -> Staged:
        if not self._release.is_streamed:
            return await worker.remote.stage(self._release.order())
        before = self._workers[: self._workers.index(worker)]
        if before and (staged := await self._from_peers(worker, before)):
            return staged
        direct = self._release.direct()
        assert direct is not None  # noqa: S101 - it is streamed
        return await worker.remote.stage(*direct)

    async def _from_peers(self, worker: PooledWorker, before: Sequence[PooledWorker]) -> Staged | None:
        """Stage the release from predecessors; return None if every attempt failed."""
        order = self._release.order(*(peer.address for peer in reversed(before)))
        async with asyncio.TaskGroup() as group:
            alone = group.create_task(self._until_failed(before), name=f"predecessors of {worker.name}")
            staging = group.create_task(_outcome(worker, order), name=f"stage {worker.name}")
            await asyncio.wait({alone, staging}, return_when=asyncio.FIRST_COMPLETED)
            alone.cancel()
            if not staging.done():
                staging.cancel()
        if staging.cancelled():
            log.warning("predecessors_failed", worker=worker.name)
            return None
        outcome = staging.result()
        if isinstance(outcome, WeightsUnreadableError):
            log.warning("peers_failed", worker=worker.name, error=outcome.message)
            return None
        if isinstance(outcome, TltError):
            raise outcome
        return outcome

    async def _until_failed(self, workers: Sequence[PooledWorker]) -> None:
        while not self._failed.issuperset(workers):
            await self._failure.wait()


async def _outcome(worker: PooledWorker, order: StageOrder) -> Staged | TltError:
    try:
        return await worker.remote.stage(order)
    except TltError as error:
        return error
