"""The process groups that this worker has joined, and the tensors collected from them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tlt_common.domain.transfer import Broadcast, ChangesPart, Collected, GroupMember
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import (
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    WeightsError,
    WeightsUnreadableError,
)
from tlt_common.telemetry.log import get_logger
from tlt_common.weights.adapter import adapter_entries
from tlt_common.weights.checkpoint import entries_in, pieces_of
from tlt_common.weights.locked_directory import LockedDirectory
from tlt_worker.weights.receiving.collected_tensors import CollectedTensors
from tlt_worker.weights.receiving.group import TrainerGroup
from tlt_worker.weights.receiving.pickle_reader import PickleReader
from tlt_worker.weights.source import WeightSources

log = get_logger(__name__)

MAX_GROUPS = 8
"""Maximum number of process groups that a worker is in at a time, each a process with its own copy of torch. Trainers
make one, or one for each of their parallel parts."""


class Receiver:
    """
    Receives the tensors of one update in several calls, possibly from several groups, one call at a time.

    Args:
        collection: Keeps the tensors until the update is complete.
        spool_dir: Directory for adapters while they are read.
        sources: Accepted sources of adapters, and the maximum size of one call's tensors.
        on_change: Called when `active` may have changed.
    """

    def __init__(
        self,
        collection: CollectedTensors,
        *,
        spool_dir: Path,
        sources: WeightSources,
        on_change: Callable[[], None],
    ) -> None:
        self._collection = collection
        self._spool_dir = spool_dir
        self._sources = sources
        self._max_bytes = sources.max_bytes
        self._on_change = on_change
        self._groups: dict[str, TrainerGroup] = {}
        self._joining: dict[str, TrainerGroup] = {}
        """Ranks of groups that are not complete."""
        self._reader = PickleReader()
        self._turn = asyncio.Lock()

    @property
    def active(self) -> bool:
        """Whether this worker has joined a group or has collected tensors."""
        return bool(self._groups) or not self._collection.is_empty

    async def join(self, member: GroupMember) -> None:
        """
        Join a group, after leaving one with the same name, which may be incomplete because its trainer restarted.

        Raises:
            OverloadedError: This worker has joined `MAX_GROUPS` others.
            UnavailableError: The group does not become complete in time, or another call joined a group with the same
                name.
        """
        if len(others := (self._groups.keys() | self._joining.keys()) - {member.name}) >= MAX_GROUPS:
            raise OverloadedError(
                f"group_name {member.name!r} exceeds the maximum of {MAX_GROUPS} groups: "
                f"{', '.join(sorted(others))}; leave one with /destroy_weights_update_group",
                field="group_name",
            )
        async with self._one_of_a_name(member) as group:
            await group.complete()
            self._groups[member.name] = group
        self._on_change()

    @asynccontextmanager
    async def _one_of_a_name(self, member: GroupMember) -> AsyncIterator[TrainerGroup]:
        """Replace the rank with the same name. The new one counts as joining within the block."""
        group = await TrainerGroup.started(member)
        former = (self._joining.pop(member.name, None), self._groups.pop(member.name, None))
        self._joining[member.name] = group
        try:
            for previous in former:
                if previous is not None:
                    await previous.leave()
            yield group
        except BaseException:
            await asyncio.shield(group.leave())
            raise
        finally:
            if self._joining.get(member.name) is group:
                del self._joining[member.name]

    async def leave(self, name: str) -> None:
        """
        Leave a group.

        Raises:
            NotFoundError: This worker has not joined it.
        """
        group = self._group(name)
        del self._groups[name]
        await group.leave()
        self._on_change()

    async def receive(self, broadcast: Broadcast) -> Collected:
        """
        Receive and collect the tensors of a broadcast.

        Tensors are received before they are compared with the model, since the trainer would wait forever for a rank
        that refuses to take part in a broadcast.

        Raises:
            NotFoundError: This worker has not joined the group.
            UnavailableError: The group failed; the collected tensors are deleted.
            WeightsError: A tensor does not fit the model; the collected tensors are deleted.
        """
        async with self._turn:
            group = self._group(broadcast.group)
            if broadcast.size_bytes > self._max_bytes:
                raise InvalidRequestError(
                    f"shapes make {broadcast.size_bytes} bytes; the maximum is {self._max_bytes}", field="shapes"
                )
            file = await asyncio.to_thread(self._collection.next_file, None)
            try:
                await group.receive(broadcast, file)
            except BaseException:
                self._groups.pop(broadcast.group, None)
                self._collection.drop()
                self._on_change()
                raise
            return await self._add(file)

    async def collect(self, pieces: AsyncIterator[bytes], part: ChangesPart | None) -> Collected:
        """
        Read and collect pickled tensors: a part of changes, or tensors of whole weights if `part` is None.

        Raises:
            WeightsError: They cannot be read, do not fit the model, or are not the next part; the collected tensors are
                deleted.
        """
        async with self._turn:
            file = await asyncio.to_thread(self._collection.next_file, part)
            try:
                await self._unpickle(pieces, file)
            except BaseException:
                self._collection.drop()
                self._on_change()
                raise
            return await self._add(file, part)

    async def collected(self, following: ChangesPart | None) -> AsyncIterator[TensorChunk]:
        """
        Yield the collected tensors in pieces. For changes, `following` is the part that would come next.

        Raises:
            WeightsError: Other parts are held.
        """
        chunks = self._collection.chunks(following)
        while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
            yield chunk

    async def adapter(self, source: str | AsyncIterator[bytes]) -> AsyncGenerator[TensorChunk, None]:
        """
        Yield the tensors of an adapter, in pieces: of a directory, with its configuration, or pickled. Nothing is kept,
        since trainers delete or overwrite the directory after the call.

        Raises:
            WeightsError: The source is not accepted, has no adapter, or contains other objects than tensors.
            WeightsUnreadableError: This worker cannot read or store it.
        """
        try:
            locked = await asyncio.to_thread(LockedDirectory.create, self._spool_dir)
        except OSError as error:
            raise WeightsUnreadableError(f"cannot store an adapter in {self._spool_dir}: {error}") from error
        try:
            if isinstance(source, str):
                directory = await asyncio.to_thread(self._sources.located, source, locked.directory / "copy")
                found = adapter_entries
            else:
                directory, found = locked.directory, entries_in
                async with self._turn:
                    await self._unpickle(source, directory / "adapter.safetensors")
            entries = await asyncio.to_thread(found, directory)
            chunks = (part.read() for entry in entries for part in pieces_of(entry))
            while (chunk := await asyncio.to_thread(next, chunks, None)) is not None:
                yield chunk
        except OSError as error:
            raise WeightsUnreadableError(f"the adapter cannot be read: {error}") from error
        finally:
            await asyncio.to_thread(locked.remove)

    async def drop(self) -> Collected:
        """Delete the collected tensors; return a description of them."""
        async with self._turn:
            held = await asyncio.to_thread(self._collection.drop)
        self._on_change()
        return held

    async def close(self) -> None:
        """Leave all groups and delete the collected tensors."""
        groups = [*self._groups.values(), *self._joining.values()]
        self._groups, self._joining = {}, {}
        await asyncio.gather(self._reader.close(), *(group.leave() for group in groups))
        self._collection.drop()

    async def _unpickle(self, pieces: AsyncIterator[bytes], file: Path) -> None:
        """Write pickled tensors to a safetensors file."""
        content = file.with_suffix(".pickle")
        try:
            await self._store(pieces, content)
            await self._reader.write_tensors(content, file)
        finally:
            await asyncio.to_thread(content.unlink, missing_ok=True)

    async def _store(self, pieces: AsyncIterator[bytes], content: Path) -> None:
        size = 0
        try:
            with content.open("xb") as stream:
                async for piece in pieces:
                    if (size := size + len(piece)) > self._max_bytes:
                        raise WeightsError(f"the tensors exceed the maximum of {self._max_bytes} bytes")
                    await asyncio.to_thread(stream.write, piece)
        except OSError as error:
            raise WeightsUnreadableError(f"cannot store weights in {content.parent}: {error.strerror}") from error

    async def _add(self, file: Path, part: ChangesPart | None = None) -> Collected:
        try:
            progress = await asyncio.to_thread(self._collection.add, file, part)
        finally:
            self._on_change()
        log.info("tensors_collected", tensors=progress.tensors, missing=progress.missing)
        return progress

    def _group(self, name: str) -> TrainerGroup:
        if name not in self._groups:
            known = ", ".join(sorted(self._groups)) or "none"
            raise NotFoundError(f"group_name is {name!r}; joined: {known}", field="group_name")
        return self._groups[name]
