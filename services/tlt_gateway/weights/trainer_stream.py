"""Tensors that a trainer streams, renamed to the names in checkpoints."""

from collections.abc import AsyncIterator
from dataclasses import replace

from tlt_common.domain.weights import TensorChunk, plain_name
from tlt_common.errors import InvalidRequestError, UnavailableError, WeightsError
from tlt_common.weights.spool import IDLE_S, Spool


async def received(incoming: Spool, tensors: AsyncIterator[TensorChunk], *, is_adapter: bool = False) -> None:
    """
    Receive tensors until the stream ends and complete the file. The names of an adapter's tensors are kept: prefixes of
    wrappers have a meaning there.

    Raises:
        UnavailableError: No tensor arrived for `IDLE_S` seconds.
        WeightsError: They are malformed, or do not fit the volume.
    """
    try:
        await incoming.receive(tensors if is_adapter else plainly_named(tensors))
    except TimeoutError:
        raise UnavailableError(f"no tensor arrived for {IDLE_S:g} s") from None
    await incoming.finish()


async def require_alone(uri: str, tensors: AsyncIterator[TensorChunk]) -> None:
    """
    Check that an update that names a source has no tensors.

    Raises:
        InvalidRequestError: The source is missing, or there are tensors.
    """
    async for _ in tensors:
        raise InvalidRequestError(
            "tensors follow a header that names a source; send either a source or tensors", field="header.source"
        )
    if not uri:
        raise InvalidRequestError("header.source.uri is empty; accepted: a path or URI", field="header.source.uri")


async def plainly_named(tensors: AsyncIterator[TensorChunk]) -> AsyncIterator[TensorChunk]:
    """
    Yield tensors with the prefixes of wrappers removed from their names.

    Raises:
        WeightsError: Two names differ only in their prefix.
    """
    given: dict[str, str] = {}
    async for chunk in tensors:
        plain = plain_name(chunk.name)
        if (other := given.setdefault(plain, chunk.name)) != chunk.name:
            raise WeightsError(
                f"tensors {other!r} and {chunk.name!r} differ only by a wrapper's prefix; send the tensor once",
                field="tensor",
            )
        yield chunk if plain == chunk.name else replace(chunk, name=plain)
