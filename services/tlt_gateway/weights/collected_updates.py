"""Updates whose tensors arrive in several calls, broadcast to a process group or pickled."""

import asyncio
from contextlib import aclosing, suppress

from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.transfer import Broadcast, ChangesPart, GroupMember
from tlt_common.domain.weights import UpdateResult, WeightsUpdate
from tlt_common.errors import NotFoundError, TltError, UnavailableError, WeightsError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.weights.fanout import REFRESH_S, WeightsFanout
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.worker_pool import WorkerPool

log = get_logger(__name__)


class CollectedUpdates:
    """
    Lets one worker receive tensors for the whole fleet and installs them once the model is complete.

    The worker stores the tensors, so that a trainer's successive calls may reach different gateways. No worker switches
    before an update is complete; an interrupted update changes nothing.
    """

    def __init__(self, pool: WorkerPool, weights: WeightsFanout) -> None:
        self._pool = pool
        self._weights = weights

    async def join(self, member: GroupMember) -> None:
        """
        Join a process group with one rank for the whole fleet.

        Raises:
            UnavailableError: The group was not complete in time, or no worker is available.
        """
        member.checked()
        worker = await self._receiver()
        await worker.remote.receiver.join(member)

    async def leave(self, name: str) -> None:
        """
        Leave a process group and delete the tensors of an incomplete update.

        Raises:
            NotFoundError: The fleet is not in the group.
        """
        worker = await self._holding(name)
        await worker.remote.receiver.leave(name)
        await worker.remote.receiver.drop()

    async def receive(self, broadcast: Broadcast, version: PolicyVersion | None) -> UpdateResult | None:
        """
        Receive tensors that a trainer broadcasts. Once an update is complete, install it under `version`, by default
        the next. Return None if tensors are still missing.

        Raises:
            NotFoundError: The fleet is not in the group.
            UnavailableError: The group failed.
            TltError: As for `WeightsFanout.update`. The previous weights stay in use.
        """
        worker = await self._holding(broadcast.checked().group)
        collected = await worker.remote.receiver.receive(broadcast)
        return await self._install(worker, version) if collected.is_complete else None

    async def collect(self, content: bytes, version: PolicyVersion | None) -> UpdateResult | None:
        """
        Add pickled tensors; otherwise as `receive`.

        Raises:
            WeightsError: They cannot be read or do not fit the model.
            TltError: As for `receive`.
        """
        worker = await self._receiver()
        collected = await worker.remote.receiver.collect(content)
        return await self._install(worker, version) if collected.is_complete else None

    async def collect_changes(self, content: bytes, part: ChangesPart) -> None:
        """
        Add pickled changes, which `end_changes` installs.

        Raises:
            WeightsError: They cannot be read or are out of order. All received parts are deleted.
        """
        worker = await self._receiver_of_changes()
        await worker.remote.receiver.collect(content, part)

    async def end_changes(self, following: ChangesPart, version: PolicyVersion | None) -> UpdateResult:
        """
        Install the changes received so far, up to the part before `following`; otherwise as `receive`.

        Raises:
            WeightsError: Other parts were received, or they do not fit. All received parts are deleted.
            StaleVersionError: They do not change the served version.
        """
        return await self._install(await self._receiver_of_changes(), version, following)

    async def end(self) -> None:
        """
        End an update.

        Raises:
            WeightsError: It was incomplete. The received tensors are deleted, and the previous weights stay in use.
        """
        for worker in await self._receiving():
            held = await worker.remote.receiver.drop()
            if held.parts:
                raise WeightsError(
                    f"{held.parts} parts of changes were deleted, as the update ended without base_version and parts; "
                    f"version {self._pool.version} remains in use"
                )
            if held.tensors:  # none if only a head that is tied to the embedding came after the others
                raise WeightsError(
                    f"{held.missing} tensors of the model did not arrive, among them {held.first_missing}; version "
                    f"{self._pool.version} remains in use"
                )

    async def _install(
        self, worker: PooledWorker, version: PolicyVersion | None, changes: ChangesPart | None = None
    ) -> UpdateResult:
        update = WeightsUpdate(
            version=PolicyVersion(self._pool.version + 1) if version is None else version,
            uri=None,
            base=None if changes is None else changes.base,
        )
        try:
            async with aclosing(worker.remote.receiver.collected(changes)) as tensors:
                return await self._weights.update(update, tensors)
        finally:
            await asyncio.shield(_dropped(worker))

    async def _holding(self, group: str) -> PooledWorker:
        """
        Return the worker that has joined process groups.

        Raises:
            NotFoundError: No worker has joined one.
        """
        if receiving := await self._receiving():
            return receiving[0]
        raise NotFoundError(f"group_name is {group!r}; joined: none; create it first", field="group_name")

    async def _receiver(self) -> PooledWorker:
        """
        Return the current receiver, or the worker to choose as one, which is the same at every gateway.

        Raises:
            UnavailableError: No worker is available.
        """
        receiving = await self._receiving()
        answering = [worker for worker in self._pool.workers if worker.answers and worker.info is not None]
        ready = [worker for worker in answering if worker.state is PooledState.READY]
        if candidates := receiving or ready or answering:
            return min(candidates, key=lambda worker: worker.name)
        raise UnavailableError("no worker is available for the weights update")

    async def _receiver_of_changes(self) -> PooledWorker:
        """
        Return the receiver of changes, as `_receiver`. Two workers hold tensors if one was unreachable meanwhile; their
        parts cannot be told apart by update.

        Raises:
            WeightsError: Two workers hold tensors. Both sets are deleted.
        """
        receiving = await self._receiving()
        if len(receiving) > 1:
            for worker in receiving:
                await _dropped(worker)
            names = ", ".join(sorted(worker.name for worker in receiving))
            raise WeightsError(f"workers {names} held tensors, which were deleted. Restart with part 0", field="part")
        return await self._receiver()

    async def _receiving(self) -> list[PooledWorker]:
        """Return the workers that are receiving, normally one. Another gateway may have just chosen it."""
        if not any(map(_receives, self._pool.workers)):
            await self._pool.refresh(REFRESH_S)
        return [worker for worker in self._pool.workers if _receives(worker)]


def _receives(worker: PooledWorker) -> bool:
    return worker.answers and worker.info is not None and worker.info.receiving


async def _dropped(worker: PooledWorker) -> None:
    with suppress(TltError):  # the worker is lost, and with it what it held; an update that was made stays
        await worker.remote.receiver.drop()
