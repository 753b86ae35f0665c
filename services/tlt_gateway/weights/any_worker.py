"""Tensors that any of several workers can provide."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable

from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import TltError, UnavailableError, WeightsUnreadableError
from tlt_gateway.workers.pooled_worker import PooledWorker


async def from_any(
    workers: Iterable[PooledWorker],
    stream: Callable[[PooledWorker], AsyncIterator[TensorChunk]],
    *,
    nobody: str,
    on_failure: Callable[[PooledWorker, TltError], object],
) -> AsyncGenerator[TensorChunk, None]:
    """
    Yield the tensors of the first worker that can provide them. Once tensors have come, no other worker is asked.

    Args:
        workers: The workers, in order of preference.
        stream: Returns a worker's tensors.
        nobody: Message if there is no worker.
        on_failure: Called for each worker that is passed over, with its error.

    Raises:
        UnavailableError: There is no worker, or the last one was lost.
        WeightsUnreadableError: The last one could not read them.
        TltError: Any other error of a worker, at once.
    """
    error: TltError = UnavailableError(nobody)
    for worker in workers:
        has_begun = False
        try:
            async for chunk in stream(worker):
                has_begun = True
                yield chunk
        except (UnavailableError, WeightsUnreadableError) as lost:
            if has_begun:
                raise
            on_failure(worker, lost)
            error = lost
        else:
            return
    raise error
