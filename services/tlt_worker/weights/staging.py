"""Fetches the weights of a release to this worker and checks them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import grpc

from tlt_common.domain.weights import Staged, StageOrder, TensorChunk
from tlt_common.errors import InvalidRequestError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.digest import contradict, files_digest
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.spool import IDLE_S
from tlt_worker.checkpoints.read_ahead import read_ahead
from tlt_worker.weights import peers
from tlt_worker.weights.held_release import HeldRelease
from tlt_worker.weights.source import WeightSources, is_remote

log = get_logger(__name__)


class Staging:
    """
    Fetches weights from a URI, from peers, or from the gateway's stream.

    Args:
        spool_dir: Directory for received or copied weights.
        sources: Accepted sources of weights, and their maximum size.
        connect: Opens a channel to a peer.
        check: Compares a directory with the running model and returns its size in bytes, or raises WeightsError.
    """

    def __init__(
        self,
        spool_dir: Path,
        sources: WeightSources,
        connect: Callable[[str], grpc.aio.Channel],
        *,
        check: Callable[[Path], Awaitable[int]],
    ) -> None:
        self._spool_dir = spool_dir
        self._sources = sources
        self._connect = connect
        self._check = check

    def begin(self, order: StageOrder) -> HeldRelease:
        """Return the release named by an order, before any of it has arrived."""
        return HeldRelease(
            order.release,
            spool_dir=self._spool_dir,
            max_bytes=self._sources.max_bytes,
            uri=order.uri,
            base=order.base,
        )

    async def receive(self, held: HeldRelease, order: StageOrder, tensors: AsyncIterator[TensorChunk]) -> None:
        """
        Fetch and check the release, and mark it as staged.

        Raises:
            InvalidRequestError: The order names another source, but tensors follow.
            WeightsError: The weights do not fit the model.
            WeightsUnreadableError: This worker cannot read or store them.
        """
        if order.uri is not None or order.peers:
            async for _ in tensors:
                raise InvalidRequestError(
                    "tensors follow a header that names a source; send either a source or tensors", field="source"
                )
        try:
            if order.uri is None:
                directory, digest = await self._received(held, order, tensors)
            else:
                directory, digest = await self._located(held, order.uri, order)
        except OSError as error:
            raise WeightsUnreadableError(f"cannot store release {order.release}: {error}") from error
        size = await self._check(directory)
        if contradict(order.release.digest, digest):
            raise WeightsUnreadableError(
                f"release {order.release} has digest {order.release.digest}; received: {digest}", field="release"
            )
        if held.incoming is None:  # what arrived was looked at in passing
            await self._read_ahead(directory)
        release = replace(order.release, digest=order.release.digest or digest)
        held.complete(release, directory, Staged(staged_bytes=size, digest=digest))
        log.info("weights_staged", policy_version=release.version, staged_bytes=size, copied=held.is_copied)

    async def _received(
        self, held: HeldRelease, order: StageOrder, tensors: AsyncIterator[TensorChunk]
    ) -> tuple[Path, str]:
        if order.peers:
            await peers.fetch(held, order.peers, self._connect)
        else:
            await self._from_gateway(held, tensors)
        incoming = held.incoming
        assert incoming is not None  # noqa: S101 - something has arrived
        await incoming.finish()
        return incoming.directory, incoming.digest

    async def _from_gateway(self, held: HeldRelease, tensors: AsyncIterator[TensorChunk]) -> None:
        try:
            await (await held.spool()).receive(tensors, skip=held.pieces)
        except TimeoutError:
            raise UnavailableError(f"no tensor arrived for {IDLE_S:g} s") from None

    async def _located(self, held: HeldRelease, uri: str, order: StageOrder) -> tuple[Path, str]:
        try:
            directory = await self._directory(held, uri)
            return directory, await asyncio.to_thread(files_digest, directory)
        except (WeightsUnreadableError, OSError) as error:
            unreadable = error if isinstance(error, WeightsError) else WeightsUnreadableError(f"{uri}: {error}")
            if not order.peers:
                raise unreadable from error
            log.warning("weights_source_unreadable", uri=uri, error=unreadable.message, peers=order.peers)
            return await self._received(held, order, _nothing())

    async def _read_ahead(self, directory: Path) -> None:
        """Read files whose values have not been checked. If they do not fit the model, only headers are read."""
        try:
            await asyncio.to_thread(read_ahead, directory)
        except OSError as error:
            raise WeightsUnreadableError(f"{directory}: {error}") from error

    async def _directory(self, held: HeldRelease, uri: str) -> Path:
        if not is_remote(uri):
            return await asyncio.to_thread(self._sources.directory_of, uri)
        locked = await asyncio.to_thread(LockedDirectory.create, self._spool_dir)
        held.copied(locked)
        return await asyncio.to_thread(self._sources.fetch, uri, locked.directory / "copy")


async def _nothing() -> AsyncIterator[TensorChunk]:
    return
    yield
