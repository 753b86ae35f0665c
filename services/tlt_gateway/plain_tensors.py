"""Streams of tensors under the names that checkpoints have."""

from collections.abc import AsyncIterator
from dataclasses import replace

from tlt_common.domain.tensor_names import plain_name
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import WeightsError


async def plainly_named(tensors: AsyncIterator[TensorChunk]) -> AsyncIterator[TensorChunk]:
    """
    Yield tensors without wrappers' prefixes.

    Raises:
        WeightsError: Two tensors differ only in those.
    """
    given: dict[str, str] = {}
    async for chunk in tensors:
        plain = plain_name(chunk.name)
        if (other := given.setdefault(plain, chunk.name)) != chunk.name:
            raise WeightsError(
                f"tensors {other!r} and {chunk.name!r} are one but for a wrapper's prefix; accepted: once",
                field="tensor",
            )
        yield chunk if plain == chunk.name else replace(chunk, name=plain)
