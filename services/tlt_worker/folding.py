"""Receives changes of the served weights, and returns whole weights."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import cached_property
from pathlib import Path

from tlt_common.domain.weights import ReleaseId, StageOrder, TensorChunk
from tlt_common.errors import StaleVersionError, UnavailableError
from tlt_common.incoming import IDLE_S, Incoming
from tlt_common.tied_head import HEAD, is_tied
from tlt_common.wire.weights import StagePart, tensors_of
from tlt_worker.model_config import read_config


class Folding:
    """
    Args:
        spool_dir: Where the changes are kept meanwhile.
        model: The model's directory.
        served: Returns the release served and the directory of its weights.
        max_bytes: Maximum size of the changes.
    """

    def __init__(
        self, spool_dir: Path, model: Path, served: Callable[[], tuple[ReleaseId, Path]], *, max_bytes: int
    ) -> None:
        self._spool_dir = spool_dir
        self._model = model
        self._served = served
        self._max_bytes = max_bytes

    async def fold(self, order: StageOrder, parts: AsyncIterator[StagePart]) -> AsyncGenerator[TensorChunk, None]:
        """
        Yield the weights of the order's release, which must be served, with the changes that follow it.

        Raises:
            StaleVersionError: Another release is served.
            WeightsError: A change does not fit, or cannot be stored.
            UnavailableError: The changes did not arrive, or the release was replaced meanwhile.
        """
        self._require_served(order.release)
        incoming = await Incoming.begin(self._spool_dir, max_bytes=self._max_bytes)
        try:
            await incoming.receive(tensors_of(parts))
            await incoming.finish()
            async for chunk in self._folded(order.release, incoming.directory):
                yield chunk
        except TimeoutError:
            raise UnavailableError(f"no tensor arrived for {IDLE_S:g} s") from None
        finally:
            incoming.discard("the changes were folded")

    async def _folded(self, base: ReleaseId, changes: Path) -> AsyncIterator[TensorChunk]:
        from tlt_worker.changes import folded  # imports numpy

        self._require_served(base)
        chunks = folded(self._served()[1], changes, without=HEAD if self._is_tied else "")
        try:
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
        except OSError as error:  # deleted with its release
            raise UnavailableError(f"release {base} can no longer be read: {error}") from error

    @cached_property
    def _is_tied(self) -> bool:
        return is_tied(read_config(self._model))

    def _require_served(self, base: ReleaseId) -> None:
        if (served := self._served()[0]) != base:
            raise StaleVersionError(f"base_version is {base.version}; served: {served}", field="header.base_version")
