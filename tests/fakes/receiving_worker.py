"""A worker's side of process groups, scripted."""

from collections.abc import AsyncIterator
from typing import Any

from tlt_common.domain.transfer import Broadcast, Collected, GroupMember
from tlt_common.domain.weights import TensorChunk
from tlt_common.errors import NotFoundError, UnavailableError
from tlt_common.wire import transfer
from tlt_common.wire import worker as wire
from tlt_worker.requests.kept import Kept
from tlt_worker.requests.watchers import Watchers


class ReceivingWorker(wire.Servicer):
    """
    Joins every group at once. What is "broadcast" or "pickled" becomes tensors of one byte each.

    Attributes:
        needed: Number of tensors that complete an update.
        groups: Groups joined; `broadcasts`: calls received.
        held: Names of the tensors collected.
        adapters: Sources of the adapters read: a URI, or a pickle.
    """

    needed = 2
    watchers: Watchers

    def __init__(self) -> None:
        self.groups: dict[str, GroupMember] = {}
        self.broadcasts: list[Broadcast] = []
        self.held: list[str] = []
        self.adapters: list[str | bytes] = []
        self.kept = Kept()

    @property
    def receiving(self) -> bool:
        return bool(self.groups or self.held)

    async def TakeKept(self, request: wire.pb.TakeKeptRequest, context: Any) -> wire.pb.TakeKeptResponse:
        return wire.kept_to_pb(self.kept.take(request.key))

    async def JoinGroup(self, request: wire.pb.JoinGroupRequest, context: Any) -> wire.pb.JoinGroupResponse:
        member = transfer.group_from_pb(request)
        self.groups[member.name] = member
        self.watchers.changed()
        return wire.pb.JoinGroupResponse()

    async def LeaveGroup(self, request: wire.pb.LeaveGroupRequest, context: Any) -> wire.pb.LeaveGroupResponse:
        if self.groups.pop(request.name, None) is None:
            raise NotFoundError(f"group_name is {request.name!r}", field="group_name")
        self.watchers.changed()
        return wire.pb.LeaveGroupResponse()

    async def ReceiveTensors(
        self, request: wire.pb.ReceiveTensorsRequest, context: Any
    ) -> wire.pb.ReceiveTensorsResponse:
        broadcast = transfer.broadcast_from_pb(request)
        if broadcast.group not in self.groups:
            raise NotFoundError(f"group_name is {broadcast.group!r}", field="group_name")
        self.broadcasts.append(broadcast)
        self._hold([form.name for form in broadcast.tensors])
        return wire.pb.ReceiveTensorsResponse(collected=transfer.collected_to_pb(self._progress))

    async def CollectTensors(
        self, request_iterator: AsyncIterator[wire.pb.CollectTensorsRequest], context: Any
    ) -> wire.pb.CollectTensorsResponse:
        _, pieces = await transfer.part_and_content(aiter(request_iterator))
        content = b"".join([piece async for piece in pieces])
        self._hold(content.decode(errors="replace").split())
        return wire.pb.CollectTensorsResponse(collected=transfer.collected_to_pb(self._progress))

    async def FetchCollected(
        self, request: wire.pb.FetchCollectedRequest, context: Any
    ) -> AsyncIterator[wire.pb.FetchCollectedResponse]:
        for name in self.held:
            chunk = TensorChunk(name=name, dtype="BF16", shape=(1,), offset_bytes=0, data=b"ab")
            yield wire.with_tensor(wire.pb.FetchCollectedResponse, chunk)

    async def DropCollected(self, request: wire.pb.DropCollectedRequest, context: Any) -> wire.pb.DropCollectedResponse:
        progress, self.held = self._progress, []
        self.watchers.changed()
        return wire.pb.DropCollectedResponse(collected=transfer.collected_to_pb(progress))

    async def ReadAdapter(
        self, request_iterator: AsyncIterator[wire.pb.ReadAdapterRequest], context: Any
    ) -> AsyncIterator[wire.pb.ReadAdapterResponse]:
        source = await transfer.adapter_from_pb(request_iterator)
        self.adapters.append(source if isinstance(source, str) else b"".join([piece async for piece in source]))
        tensor = TensorChunk(name="lora_A", dtype="F32", shape=(1,), offset_bytes=0, data=bytes(4))
        yield wire.with_tensor(wire.pb.ReadAdapterResponse, tensor)

    async def FoldWeights(
        self, request_iterator: AsyncIterator[wire.pb.FoldWeightsRequest], context: Any
    ) -> AsyncIterator[wire.pb.FoldWeightsResponse]:
        raise UnavailableError("a scripted worker has no weights to change")
        yield

    def _hold(self, names: list[str]) -> None:
        self.held += names
        self.watchers.changed()

    @property
    def _progress(self) -> Collected:
        missing = max(0, self.needed - len(self.held))
        return Collected(tensors=len(self.held), missing=missing, first_missing="w" if missing else "")
