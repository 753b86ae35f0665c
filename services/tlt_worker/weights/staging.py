"""Fetches the weights of a release to this worker and checks them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import grpc

from tlt_common.domain.weights import ReleaseId, Staged, StageOrder, TensorChunk
from tlt_common.errors import InvalidRequestError, UnavailableError, WeightsError, WeightsUnreadableError
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.adapter import adapter_entries
from tlt_common.weights.checkpoint import pieces_of
from tlt_common.weights.digest import contradict, files_digest, tensors_digest
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_common.weights.spool import IDLE_S, Spool
from tlt_worker.checkpoints.adapted import AdaptedCheckpoint
from tlt_worker.checkpoints.model_config import read_config
from tlt_worker.checkpoints.read_ahead import read_ahead
from tlt_worker.weights import peers
from tlt_worker.weights.held_release import HeldRelease
from tlt_worker.weights.source import WeightSources, is_remote

log = get_logger(__name__)


class Staging:
    """
    Fetches weights, or changes of them, from a URI, from peers, or from the gateway's stream.

    Args:
        spool_dir: Directory for received or copied weights.
        sources: Accepted sources of weights, and their maximum size.
        connect: Opens a channel to a peer.
        check: Compares a directory with the running model and returns its size in bytes, or raises WeightsError.
        model: The model's directory.
    """

    def __init__(
        self,
        spool_dir: Path,
        sources: WeightSources,
        connect: Callable[[str], grpc.aio.Channel],
        *,
        check: Callable[[Path], Awaitable[int]],
        model: Path,
    ) -> None:
        self._spool_dir = spool_dir
        self._sources = sources
        self._connect = connect
        self._check = check
        self._model = model

    def begin(self, order: StageOrder, whole: HeldRelease) -> HeldRelease:
        """
        Return the release named by an order, before any of it has arrived.

        Args:
            order: What to stage.
            whole: The whole weights that this worker has, into which adapters are merged.
        """
        return HeldRelease(
            order.release,
            spool_dir=self._spool_dir,
            max_bytes=self._sources.max_bytes,
            uri=order.uri,
            base=order.base,
            merged_into=None if order.adapter_base is None else whole,
            adapter_name=order.adapter_name,
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
        checkpoint, shared = directory, directory
        if order.adapter_base is not None:
            await asyncio.to_thread(_require_base, held.whole, order.adapter_base)
            checkpoint, shared = await asyncio.to_thread(self._adapted, held, directory)
        size = await self._check(checkpoint)
        if contradict(order.release.digest, digest):
            raise WeightsUnreadableError(
                f"release {order.release} has digest {order.release.digest}; received: {digest}", field="release"
            )
        if held.incoming is None:  # what arrived was looked at in passing
            await self._read_ahead(directory)
        release = replace(order.release, digest=order.release.digest or digest)
        held.complete(release, checkpoint, Staged(staged_bytes=size, digest=digest), shared=shared)
        log.info("weights_staged", policy_version=release.version, staged_bytes=size, copied=held.is_copied)

    @asynccontextmanager
    async def changes(self, uri: str | None, tensors: AsyncIterator[TensorChunk]) -> AsyncIterator[Path]:
        """
        Yield a directory with changes of the served weights. What was received or copied is deleted afterwards.

        Raises:
            WeightsError: A tensor is not accepted, or the URI.
            WeightsUnreadableError: This worker cannot read or store them.
            UnavailableError: They did not arrive.
        """
        if uri is None:
            incoming = await Spool.begin(self._spool_dir, max_bytes=self._sources.max_bytes)
            try:
                await _receive(incoming, tensors)
                await incoming.finish()
                yield incoming.directory
            finally:
                incoming.discard("the changes were folded")
        elif not is_remote(uri):
            yield await asyncio.to_thread(self._sources.directory_of, uri)
        else:
            try:
                copy = await asyncio.to_thread(LockedDirectory.create, self._spool_dir)
            except OSError as error:
                raise WeightsUnreadableError(f"cannot store changes in {self._spool_dir}: {error}") from error
            try:
                yield await asyncio.to_thread(self._sources.fetch, uri, copy.directory / "copy")
            finally:
                copy.remove()

    async def _received(
        self, held: HeldRelease, order: StageOrder, tensors: AsyncIterator[TensorChunk]
    ) -> tuple[Path, str]:
        if order.peers:
            await peers.fetch(held, order.peers, self._connect)
        else:
            await _receive(await held.spool(), tensors, skip=held.pieces)
        incoming = held.incoming
        assert incoming is not None  # noqa: S101 - something has arrived
        await incoming.finish()
        return incoming.directory, incoming.digest

    async def _located(self, held: HeldRelease, uri: str, order: StageOrder) -> tuple[Path, str]:
        try:
            directory = await self._directory(held, uri)
            if order.adapter_base is not None:
                return directory, await asyncio.to_thread(_adapter_digest, directory)
            return directory, await asyncio.to_thread(files_digest, directory)
        except (WeightsUnreadableError, OSError) as error:
            unreadable = error if isinstance(error, WeightsError) else WeightsUnreadableError(f"{uri}: {error}")
            if not order.peers:
                raise unreadable from error
            log.warning("weights_source_unreadable", uri=uri, error=unreadable.message, peers=order.peers)
            return await self._received(held, order, _nothing())

    def _adapted(self, held: HeldRelease, adapter: Path) -> tuple[Path, Path]:
        """Return a directory that joins an adapter and its base, and one with embedding and head as merged."""
        base = held.whole.directory
        assert base is not None  # noqa: S101 - it is held
        locked = LockedDirectory.create(self._spool_dir)
        held.copied(locked)
        joined = AdaptedCheckpoint(base=base, adapter=adapter)
        joined.read_ahead()
        joined.link(locked.directory)
        return locked.directory, joined.shared(locked.directory, read_config(self._model))

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


def _require_base(whole: HeldRelease, wanted: ReleaseId) -> None:
    """
    Check that an adapter belongs to these weights.

    Raises:
        WeightsError: It was trained on others.
    """
    if wanted.digest and contradict(wanted.digest, found := whole.tensors_digest()):
        raise WeightsError(
            f"the adapter was trained on weights with digest {wanted.digest}; release {whole.id}, into which it would "
            f"be merged, has {found}. Publish the whole weights that it belongs to first",
            field="adapter_base",
        )


def _adapter_digest(directory: Path) -> str:
    return tensors_digest(piece for entry in adapter_entries(directory) for piece in pieces_of(entry))


async def _receive(spool: Spool, tensors: AsyncIterator[TensorChunk], *, skip: int = 0) -> None:
    try:
        await spool.receive(tensors, skip=skip)
    except TimeoutError:
        raise UnavailableError(f"no tensor arrived for {IDLE_S:g} s") from None


async def _nothing() -> AsyncIterator[TensorChunk]:
    return
    yield
