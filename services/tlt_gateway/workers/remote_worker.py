"""Calls to one worker. Each raises the worker's TltError."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Never

import grpc

from tlt_common.aio import Blocks
from tlt_common.domain.fleet import WatchDemand, WatchReport
from tlt_common.domain.ids import RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.weights import ReleaseId, Staged, StageOrder, TensorChunk
from tlt_common.errors import UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.rpc.streams import answered, received
from tlt_common.wire import transfer
from tlt_common.wire import worker as wire
from tlt_gateway.workers.remote_receiver import RemoteReceiver
from tlt_gateway.workers.response_stream import ResponseStream
from tlt_gateway.workers.responses import Responses

CALL_S = 10.0
"""Deadline, in seconds, of calls that do not touch a device."""


class RemoteWorker:
    """
    One worker, over a channel that reconnects automatically.

    Attributes:
        received: Number of messages received in the streams of responses and of the watch. While it rises, the worker
            is alive.
        receiver: Its interface for trainers' process groups.
    """

    def __init__(self, channel: grpc.aio.Channel, *, stage_s: float) -> None:
        self.received = 0
        self._stub = wire.Stub(channel)
        self.receiver = RemoteReceiver(channel)
        self._stage_s = stage_s
        self._updates = Blocks()
        self._given_up = ""
        self._responses = Responses(channel, self._heard)

    async def watch(self, demands: AsyncGenerator[WatchDemand, None]) -> AsyncGenerator[WatchReport, None]:
        """
        Yield the worker's state at once, at every change, and at least every second. There is no deadline.

        Raises:
            UnavailableError: The worker is unreachable, or the connection was lost.
        """
        async with received(self._stub.Watch(wire.demand_to_pb(demand) async for demand in demands)) as messages:
            async for message in messages:
                self._heard()
                yield wire.report_from_pb(message)

    async def exchange(self) -> Never:
        """Send requests and receive responses until cancelled."""
        await self._responses.run()

    def generate(self, prompt: Prompt) -> ResponseStream:
        """Return the response to a prompt. It has no deadline of its own: it ends when the client's call ends."""
        return self._responses.generate(prompt)

    async def abort(self, request_ids: Iterable[RequestId], *, owner: str) -> set[RequestId]:
        """
        Abort all attempts at an owner's requests, including those of other gateways, or single attempts; return the ids
        of those that were running.
        """
        with translated():
            request = wire.pb.AbortRequest(request_ids=request_ids, owner=owner)
            answer = await self._stub.Abort(request, timeout=CALL_S)
        return {RequestId(request_id) for request_id in answer.request_ids}

    async def announce(self, owner: str, prompts: Sequence[Prompt], samples: int) -> None:
        """Replace the prompts that an owner has announced at this worker, each with a number of responses."""
        # In a thread, between whose steps the event loop runs: there may be thousands of prompts.
        request = await asyncio.to_thread(wire.announced_to_pb, owner, prompts, samples)
        with translated():
            await self._stub.Announce(request, timeout=CALL_S)

    async def take_kept(self, key: str) -> TokenChunk | None:
        """Return the tokens that the worker kept of a response whose stream broke, and release them."""
        with translated():
            answer = await self._stub.TakeKept(wire.pb.TakeKeptRequest(key=key), timeout=CALL_S)
        return wire.kept_from_pb(answer)

    def give_up(self, why: str) -> None:
        """End all calls with UnavailableError, because the worker is lost although its connection is open."""
        self._given_up = why
        self._updates.end()
        self._responses.give_up(why)

    async def stage(self, order: StageOrder, tensors: AsyncIterator[TensorChunk] | None = None) -> Staged:
        """Let the worker fetch and check weights; `tensors` follow the order unless it names another source."""

        async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
            yield wire.stage_to_pb(order)
            async for chunk in tensors or _none():
                yield wire.stage_to_pb(chunk)

        async with self._until_given_up():
            response = await answered(partial(self._stub.StageWeights, timeout=self._stage_s), messages())
        return Staged(staged_bytes=response.staged_bytes, digest=response.digest)

    async def fold(
        self, base: ReleaseId, uri: str | None, changes: AsyncIterator[TensorChunk] | None
    ) -> AsyncGenerator[TensorChunk, None]:
        """Yield the whole weights of a release the worker serves, with changes applied: these, or those at `uri`."""

        async def messages() -> AsyncIterator[wire.pb.FoldWeightsRequest]:
            yield transfer.base_to_pb(base, uri)
            if changes is not None:
                async for chunk in changes:
                    yield wire.with_tensor(wire.pb.FoldWeightsRequest, chunk)

        async with self._until_given_up(), received(self._stub.FoldWeights(messages(), timeout=self._stage_s)) as parts:
            async for part in parts:
                yield wire.tensor_from_pb(part.tensor)

    async def commit(self, release: ReleaseId) -> None:
        """Make the worker switch to the staged weights."""
        async with self._until_given_up():
            request = wire.pb.CommitWeightsRequest(policy_version=release.version, release=wire.release_to_pb(release))
            await self._stub.CommitWeights(request, timeout=self._stage_s)

    async def discard(self, release: ReleaseId) -> None:
        """Make the worker discard the staged weights."""
        with translated():
            request = wire.pb.DiscardWeightsRequest(policy_version=release.version, release=wire.release_to_pb(release))
            await self._stub.DiscardWeights(request, timeout=CALL_S)

    async def release_memory(self, tags: Iterable[str], *, limit_s: float | None) -> None:
        """Make the worker release its devices to an RL trainer, for `limit_s` seconds at most."""
        async with self._until_given_up():
            request = wire.pb.ReleaseMemoryRequest(tags=tags, limit_s=limit_s)
            await self._stub.ReleaseMemory(request, timeout=self._stage_s)

    async def resume_memory(self, tags: Iterable[str]) -> None:
        """Make the worker take its devices back."""
        async with self._until_given_up():
            await self._stub.ResumeMemory(wire.pb.ResumeMemoryRequest(tags=tags), timeout=self._stage_s)

    @asynccontextmanager
    async def _until_given_up(self) -> AsyncIterator[None]:
        try:
            with translated():
                async with self._updates.until_ended():
                    yield
        except TimeoutError:
            raise UnavailableError(self._given_up) from None

    def _heard(self) -> None:
        self.received += 1


async def _none() -> AsyncIterator[TensorChunk]:
    return
    yield
