"""Applies changes of weights: a worker that serves the base version makes them whole."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import InvalidRequestError, StaleVersionError
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.piece_log import PieceLog
from tlt_gateway.weights.any_worker import from_any
from tlt_gateway.weights.release import Release
from tlt_gateway.weights.release_store import ReleaseStore
from tlt_gateway.weights.trainer_stream import received
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


@asynccontextmanager
async def folded(
    pool: WorkerPool, store: ReleaseStore, base: ReleaseId, uri: str | None, changes: AsyncIterator[TensorChunk]
) -> AsyncIterator[AsyncIterator[TensorChunk]]:
    """
    Receive changes of a release, or let a worker read them from `uri`; yield the whole weights as they arrive.

    A worker folds the changes into the weights it serves, which every worker has in files; gateways may not. The result
    is an ordinary update, so that workers that join later and gateways that restart need no changes.

    Raises:
        WeightsError: The changes are malformed, or do not fit the release.
        WeightsUnreadableError: No worker can read them.
        StaleVersionError: No worker serves the release any more.
        UnavailableError: No such worker is available.
    """
    if uri is not None:
        yield _whole(pool, base, uri, None)
        return
    incoming = await store.begin()
    try:
        await received(incoming, changes)
        yield _whole(pool, base, None, incoming.log)
    finally:
        incoming.discard("the changes were folded")


def require_base(base: PolicyVersion, release: Release) -> None:
    """
    Check that changes are based on the served version, which has to be whole weights.

    Raises:
        StaleVersionError: They are based on another version.
        InvalidRequestError: They are based on an adapter.
    """
    served = release.id
    if base == served.version and release.adapter_base is not None:
        raise InvalidRequestError(
            f"base_version is {base}, an adapter upon {release.adapter_base}; accepted: whole weights. Publish an "
            "adapter, or whole weights",
            field="header.base_version",
        )
    if base != served.version:
        raise StaleVersionError(
            f"base_version is {base}; served: {served.version}. Publish changes of that, or whole weights",
            field="header.base_version",
        )


def _whole(pool: WorkerPool, base: ReleaseId, uri: str | None, changes: PieceLog | None) -> AsyncIterator[TensorChunk]:
    return from_any(
        _serving(pool, base),
        lambda worker: worker.remote.fold(base, uri, None if changes is None else changes.follow()),
        nobody=f"no worker that serves {base} is available",
        on_failure=lambda worker, lost: log.warning("not_folded", worker=worker.name, error=lost.message),
    )


def _serving(pool: WorkerPool, base: ReleaseId) -> list[PooledWorker]:
    return [
        worker
        for worker in pool.workers
        if worker.answers and worker.info is not None and worker.info.served.id == base
    ]
