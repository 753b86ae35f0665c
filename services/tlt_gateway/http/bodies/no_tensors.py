"""The tensors of an update that names a directory: none."""

from collections.abc import AsyncIterator

from tlt_common.domain.weights import TensorChunk


async def no_tensors() -> AsyncIterator[TensorChunk]:
    """Yield nothing."""
    return
    yield
