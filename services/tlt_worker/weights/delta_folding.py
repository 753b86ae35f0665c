"""Receives or reads changes of the served weights, and returns whole weights."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from functools import cached_property
from pathlib import Path

from tlt_common.domain.weights import ReleaseId, TensorChunk
from tlt_common.errors import StaleVersionError, UnavailableError, WeightsUnreadableError
from tlt_common.weights.experts import are_served_apart
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.spool import IDLE_S, Spool
from tlt_common.weights.tied_head import HEAD, is_tied
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.weights.deltas import folded
from tlt_worker.weights.source import WeightSources, is_remote


class DeltaFolding:
    """
    Args:
        spool_dir: Directory for the received changes.
        model: The model's directory.
        served: Returns the served release and the directory of its weights.
        sources: Accepted sources of changes, and their maximum size.
    """

    def __init__(
        self, spool_dir: Path, model: Path, served: Callable[[], tuple[ReleaseId, Path]], *, sources: WeightSources
    ) -> None:
        self._spool_dir = spool_dir
        self._model = model
        self._served = served
        self._sources = sources

    async def fold(
        self, base: ReleaseId, uri: str | None, changes: AsyncIterator[TensorChunk]
    ) -> AsyncGenerator[TensorChunk, None]:
        """
        Yield the weights of a release, which must be served, with these changes or those in a directory applied.

        Raises:
            StaleVersionError: Another release is served.
            WeightsError: A change does not fit, or cannot be stored.
            WeightsUnreadableError: This worker cannot read the directory.
            UnavailableError: The changes did not arrive, or the release was replaced meanwhile.
        """
        self._require_served(base)
        changed = self._streamed(base, changes) if uri is None else self._located(base, uri)
        async with aclosing(changed) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _located(self, base: ReleaseId, uri: str) -> AsyncGenerator[TensorChunk, None]:
        try:
            copy = await asyncio.to_thread(LockedDirectory.create, self._spool_dir) if is_remote(uri) else None
        except OSError as error:
            raise WeightsUnreadableError(f"cannot store changes in {self._spool_dir}: {error}") from error
        try:
            to = copy.directory / "copy" if copy else self._spool_dir
            directory = await asyncio.to_thread(self._sources.located, uri, to)
            async for chunk in self._folded(base, directory):
                yield chunk
        finally:
            if copy is not None:
                copy.remove()

    async def _streamed(
        self, base: ReleaseId, changes: AsyncIterator[TensorChunk]
    ) -> AsyncGenerator[TensorChunk, None]:
        incoming = await Spool.begin(self._spool_dir, max_bytes=self._sources.max_bytes)
        try:
            await incoming.receive(changes)
            await incoming.finish()
            async for chunk in self._folded(base, incoming.directory):
                yield chunk
        except TimeoutError:
            raise UnavailableError(f"no tensor arrived for {IDLE_S:g} s") from None
        finally:
            incoming.discard("the changes were folded")

    async def _folded(self, base: ReleaseId, changes: Path) -> AsyncIterator[TensorChunk]:
        self._require_served(base)
        is_tied, splits_experts = self._rules
        chunks = folded(self._served()[1], changes, without=HEAD if is_tied else "", splits_experts=splits_experts)
        try:
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
        except OSError as error:  # deleted with its release
            raise UnavailableError(f"release {base} or its changes can no longer be read: {error}") from error

    @cached_property
    def _rules(self) -> tuple[bool, bool]:
        """Return whether the model ties its head, and whether stacked experts stand for individual ones."""
        config = read_config(self._model)
        return is_tied(config), are_served_apart(config)

    def _require_served(self, base: ReleaseId) -> None:
        if (served := self._served()[0]) != base:
            raise StaleVersionError(f"base_version is {base.version}; served: {served}", field="header.base_version")
