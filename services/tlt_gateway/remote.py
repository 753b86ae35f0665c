"""Calls to one worker. Each has a deadline, and raises the TltError it was at the worker."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from itertools import chain
from typing import TypeAlias

import grpc

from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.rollout import Prompt, TokenChunk
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import AbortedError, UnavailableError
from tlt_common.rpc.errors import translated
from tlt_common.wire import worker as wire

ANSWER_S = 2.0
"""For calls that touch no device. A worker that needs longer is as good as lost."""

Call: TypeAlias = grpc.aio.UnaryStreamCall[wire.pb.GenerateRequest, wire.pb.GenerateResponse]


class Answer:
    """A response that a worker streams."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._hung_up = False

    def hang_up(self) -> None:
        """End it from outside: the worker aborts, and whoever reads gets AbortedError."""
        self._hung_up = True
        self._call.cancel()

    async def chunks(self) -> AsyncGenerator[TokenChunk, None]:
        """
        What comes. Closing the iterator hangs up.

        Raises:
            AbortedError: `hang_up` was called.
            UnavailableError: The worker is lost.
        """
        try:
            with translated():
                async for message in self._call:
                    yield wire.chunk_from_pb(message.chunk)
        except AbortedError as error:  # nobody here did: the worker cancels its calls when it shuts down
            raise UnavailableError(f"the worker cancelled the response: {error.message}") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            # A call cancelled here says so like a cancelled task does; only the task knows which one it was.
            if self._hung_up and task is not None and not task.cancelling():
                raise AbortedError("the request was aborted") from None
            raise
        finally:
            self._call.cancel()


class RemoteWorker:
    """One worker, over a channel that reconnects by itself."""

    def __init__(self, channel: grpc.aio.Channel, *, stage_s: float) -> None:
        self._stub = wire.Stub(channel)
        self._stage_s = stage_s

    async def info(self) -> WorkerInfo:
        """What the worker is and serves."""
        with translated():
            return wire.info_from_pb(await self._stub.GetWorkerInfo(wire.pb.GetWorkerInfoRequest(), timeout=ANSWER_S))

    def generate(self, prompt: Prompt) -> Answer:
        """Start a response; its own deadline is that of the client, who hangs up."""
        return Answer(self._stub.Generate(wire.pb.GenerateRequest(prompt=wire.prompt_to_pb(prompt))))

    async def stage(self, update: WeightsUpdate, tensors: Callable[[], Iterator[TensorChunk]]) -> None:
        """Have the worker fetch and check weights. `tensors` blocks on the disk; it is read in a thread."""
        parts: Iterator[WeightsUpdate | TensorChunk] = chain([update], tensors())

        async def messages() -> AsyncIterator[wire.pb.StageWeightsRequest]:
            while (part := await asyncio.to_thread(next, parts, None)) is not None:
                yield wire.stage_to_pb(part)

        with translated():
            await self._stub.StageWeights(messages(), timeout=self._stage_s)

    async def commit(self, version: PolicyVersion) -> None:
        """Have the worker switch to what it staged."""
        with translated():
            request = wire.pb.CommitWeightsRequest(policy_version=version)
            await self._stub.CommitWeights(request, timeout=self._stage_s)

    async def discard(self, version: PolicyVersion) -> None:
        """Have the worker forget what it staged."""
        with translated():
            await self._stub.DiscardWeights(wire.pb.DiscardWeightsRequest(policy_version=version), timeout=ANSWER_S)
