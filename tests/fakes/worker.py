"""A worker that follows a script, behind a real gRPC server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from tlt_common.checkpoint import FILE_NAME, read
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId, WorkerId
from tlt_common.domain.rollout import FinishReason, Prompt, ResponseStats, TokenChunk
from tlt_common.domain.weights import TensorChunk, WeightsUpdate
from tlt_common.errors import InvalidRequestError, TltError, UnavailableError
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.server import Door, Service, serving
from tlt_common.wire import worker as wire


class FakeWorker(wire.Servicer):
    """
    Counts on from the last token of a prompt, one token per chunk, until `max_new_tokens` or a stop token.

    A token depends on its prefix alone, so that a response that moved between workers reads like one that did not.

    Attributes:
        gate: Tokens after the first `free_tokens` of a response wait for it; set at first.
        prompts: What was asked, oldest first.
        hung_up: Requests whose caller left before they were complete.
        stage_error, commit_error, generate_error: Raised instead of doing it, while set.
        staged: Version kept ready, and its tensors as bytes.
        weights: Tensors served, as bytes.
        updates: Versions committed, oldest first.
        drain: Refuses requests once it has begun.
        reticent: It does not say that it drains when it is asked how it is.
    """

    def __init__(
        self,
        worker_id: str = "w0",
        *,
        vocab_size: int = 100,
        context_length: int = 128,
        max_running: int = 8,
        policy_version: int = 0,
        door: Door | None = None,
    ) -> None:
        self.worker_id = WorkerId(worker_id)
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.max_running = max_running
        self.policy_version = PolicyVersion(policy_version)
        self.address = "127.0.0.1:0"
        self.free_tokens = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.prompts: list[Prompt] = []
        self.running: set[RequestId] = set()
        self.hung_up: list[RequestId] = []
        self.generate_error: TltError | None = None
        self.stage_error: TltError | None = None
        self.commit_error: TltError | None = None
        self.staged: tuple[PolicyVersion, dict[str, bytes]] | None = None
        self.weights: dict[str, bytes] = {}
        self.updates: list[PolicyVersion] = []
        self.reticent = False
        self._door = door
        self.drain = Drain("Generate")
        self._changed = asyncio.Condition()
        self._killed = asyncio.Event()
        self._server = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve, at the same address as before if there was one."""
        self._killed.clear()
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, self))
        server = await self._server.enter_async_context(
            serving(self.address, service, door=self._door, drain=self.drain)
        )
        self.address = f"127.0.0.1:{server.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        """Be gone: streams break, the port closes."""
        self._killed.set()
        await self._server.aclose()

    async def until(self, running: int) -> None:
        """Wait until exactly so many requests run."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.running) == running)

    async def Generate(self, request: wire.pb.GenerateRequest, context: Any) -> AsyncIterator[wire.pb.GenerateResponse]:
        if self.generate_error is not None:
            raise self.generate_error
        prompt = wire.prompt_from_pb(request.prompt)
        self.prompts.append(prompt)
        await self._count(prompt.request_id, +1)
        complete = False
        try:
            async for chunk in self._answer(prompt):
                complete = chunk.finish_reason is not None
                yield wire.pb.GenerateResponse(chunk=wire.chunk_to_pb(chunk))
        finally:
            if not (complete or self._killed.is_set()):
                self.hung_up.append(prompt.request_id)
            await asyncio.shield(self._count(prompt.request_id, -1))

    async def Abort(self, request: wire.pb.AbortRequest, context: Any) -> wire.pb.AbortResponse:
        return wire.pb.AbortResponse(aborted_count=0)

    async def StageWeights(
        self, request_iterator: AsyncIterator[wire.pb.StageWeightsRequest], context: Any
    ) -> wire.pb.StageWeightsResponse:
        tensors: list[TensorChunk] = []
        version = PolicyVersion(0)
        async for message in request_iterator:
            match wire.stage_from_pb(message):
                case WeightsUpdate(version=version, uri=uri):
                    if uri is not None:
                        tensors += read(Path(uri.removeprefix("file://")) / FILE_NAME)
                case TensorChunk() as tensor:
                    tensors.append(tensor)
        if self.stage_error is not None:
            raise self.stage_error
        self.staged = (version, {})
        for tensor in tensors:
            self.staged[1][tensor.name] = self.staged[1].get(tensor.name, b"") + tensor.data
        return wire.pb.StageWeightsResponse(staged_bytes=sum(map(len, self.staged[1].values())))

    async def CommitWeights(self, request: wire.pb.CommitWeightsRequest, context: Any) -> wire.pb.CommitWeightsResponse:
        if self.commit_error is not None:
            raise self.commit_error
        if self.staged is None or self.staged[0] != request.policy_version:
            raise InvalidRequestError("that version is not staged", field="policy_version")
        self.policy_version, self.weights = self.staged
        self.staged = None
        self.updates.append(self.policy_version)
        return wire.pb.CommitWeightsResponse(pause_s=0.0)

    async def DiscardWeights(
        self, request: wire.pb.DiscardWeightsRequest, context: Any
    ) -> wire.pb.DiscardWeightsResponse:
        self.staged = None
        return wire.pb.DiscardWeightsResponse()

    async def ApplyDrafter(self, request: wire.pb.ApplyDrafterRequest, context: Any) -> wire.pb.ApplyDrafterResponse:
        return wire.pb.ApplyDrafterResponse()

    async def GetWorkerInfo(self, request: wire.pb.GetWorkerInfoRequest, context: Any) -> wire.pb.GetWorkerInfoResponse:
        return wire.info_to_pb(
            WorkerInfo(
                worker_id=self.worker_id,
                model="fake",
                vocab_size=self.vocab_size,
                context_length=self.context_length,
                max_running=self.max_running,
                policy_version=self.policy_version,
                drafter_version=DrafterVersion(0),
                running=len(self.running),
                device="scripted",
                draining=self.drain.begun and not self.reticent,
            )
        )

    async def _answer(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        """One token per chunk and round."""
        sampling = prompt.sampling
        length = sampling.max_new_tokens or self.context_length - len(prompt.token_ids)
        token = (*prompt.token_ids, *prompt.prefix_token_ids)[-1]
        before = len(prompt.prefix_token_ids)
        for count in range(before + 1, length + 1):
            if count - before > self.free_tokens:
                await self._pass_gate()
            token = (token + 1) % self.vocab_size
            stopped = token in sampling.stop_token_ids and count > sampling.min_new_tokens
            finish = FinishReason.STOP if stopped else FinishReason.LENGTH if count == length else None
            stats = ResponseStats(
                prompt_tokens=len(prompt.token_ids),
                completion_tokens=count - before,
                rounds=count - before,
                accepted_draft_tokens=0,
                worker_id=self.worker_id,
            )
            yield TokenChunk(
                request_id=prompt.request_id,
                token_ids=(token,),
                logprobs=(-token / 128,),
                policy_versions=(self.policy_version,),
                finish_reason=finish,
                stats=stats if finish else None,
            )
            if finish:
                return

    async def _pass_gate(self) -> None:
        """
        Raises:
            UnavailableError: The worker was killed meanwhile.
        """
        while not (self.gate.is_set() or self._killed.is_set()):
            async with asyncio.TaskGroup() as waits:
                tasks = [waits.create_task(event.wait()) for event in (self.gate, self._killed)]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
        if self._killed.is_set():
            raise UnavailableError("killed")

    async def _count(self, request_id: RequestId, change: int) -> None:
        async with self._changed:
            (self.running.add if change > 0 else self.running.discard)(request_id)
            self._changed.notify_all()
