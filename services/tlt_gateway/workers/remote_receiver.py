"""Calls to the worker that receives tensors from a trainer. Each raises the worker's TltError."""

from collections.abc import AsyncGenerator

import grpc

from tlt_common.domain.transfer import Broadcast, ChangesPart, Collected, GroupMember
from tlt_common.domain.weights import TensorChunk
from tlt_common.rpc.errors import translated
from tlt_common.rpc.streams import received
from tlt_common.wire import transfer
from tlt_common.wire import worker as wire

CALL_S = 60.0
"""Deadline, in seconds, of calls that wait for no trainer. How long others wait for one, the worker decides."""


COLLECT_S = 300.0
"""Deadline of a call whose tensors another process of the worker reads, which imports torch for the first one."""


class RemoteReceiver:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = wire.Stub(channel)

    async def join(self, member: GroupMember) -> None:
        """Make the worker join a process group; wait until the group is complete."""
        with translated():
            await self._stub.JoinGroup(transfer.group_to_pb(member))

    async def leave(self, name: str) -> None:
        """Make the worker leave a process group."""
        with translated():
            await self._stub.LeaveGroup(wire.pb.LeaveGroupRequest(name=name), timeout=CALL_S)

    async def receive(self, broadcast: Broadcast) -> Collected:
        """Make the worker receive a broadcast; return the tensors collected so far."""
        with translated():
            answer = await self._stub.ReceiveTensors(transfer.broadcast_to_pb(broadcast))
        return transfer.collected_from_pb(answer.collected)

    async def collect(self, content: bytes, part: ChangesPart | None = None) -> Collected:
        """Send pickled tensors to the worker, possibly a part of changes; return the tensors collected so far."""
        with translated():
            answer = await self._stub.CollectTensors(iter(transfer.content_to_pb(content, part)), timeout=COLLECT_S)
        return transfer.collected_from_pb(answer.collected)

    async def collected(self, following: ChangesPart | None) -> AsyncGenerator[TensorChunk, None]:
        """Yield the collected tensors. For changes, `following` is the number of the next part."""
        request = wire.pb.FetchCollectedRequest(next=transfer.part_to_pb(following))
        async with received(self._stub.FetchCollected(request)) as messages:
            async for message in messages:
                yield wire.tensor_from_pb(message.tensor)

    async def adapter(self, source: str | bytes) -> AsyncGenerator[TensorChunk, None]:
        """Yield the tensors of an adapter that the worker reads: a directory at a URI, or pickled tensors."""
        calls = self._stub.ReadAdapter(iter(transfer.adapter_to_pb(source)), timeout=COLLECT_S)
        async with received(calls) as messages:
            async for message in messages:
                yield wire.tensor_from_pb(message.tensor)

    async def drop(self) -> Collected:
        """Make the worker delete the collected tensors; return a description of them."""
        with translated():
            answer = await self._stub.DropCollected(wire.pb.DropCollectedRequest(), timeout=CALL_S)
        return transfer.collected_from_pb(answer.collected)
