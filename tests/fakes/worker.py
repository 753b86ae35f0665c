"""A scripted worker behind a real gRPC server."""

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any, Self

from tests.fakes.events import any_of
from tests.fakes.fetched import fetched, require_newer
from tests.fakes.prefix_cache import PrefixCache
from tests.fakes.receiving_worker import ReceivingWorker
from tests.fakes.scripted_chunk import scripted_chunk
from tlt_common.domain.arm.rounds import NO_ROUNDS
from tlt_common.domain.fleet import WorkerInfo
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.request_ids import is_named, request_of
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_common.domain.weights import ReleaseId, ServedRelease, StageOrder, TensorChunk
from tlt_common.errors import NotFoundError, StaleVersionError, TltError, UnavailableError
from tlt_common.rpc.drain import Drain
from tlt_common.rpc.server import ServerSecurity, Service, serving
from tlt_common.weights.checkpoint import read
from tlt_common.weights.digest import TensorDigest
from tlt_common.weights.layout import FILE_NAME
from tlt_common.wire import worker as wire
from tlt_worker.requests.request_stream import RequestStream
from tlt_worker.requests.watchers import Watchers


class FakeWorker(ReceivingWorker):
    """
    Counts up from the last token of a prompt, one token per chunk, until `max_new_tokens` or a stop token.

    A token depends only on its prefix, so that a response moved between workers equals one that was not.

    Attributes:
        gate: Tokens after the first `free_tokens` of a response wait for it; initially set.
        prompts: Prompts received, oldest first.
        hung_up: Requests whose caller disconnected before they were complete.
        announced: Prompts announced, by owner.
        stage_error, commit_error, generate_error, announce_error: Raised instead of performing the call, while set.
        staged: Staged release, and its tensors as bytes; `weights`: tensors served.
        orders: Orders to stage received, oldest first.
        commit_gate, stage_gate: Commits and stagings wait for it; initially set.
        updates: Versions committed, oldest first.
        drain: Refuses requests once draining has begun.
        token_s: Seconds per token.
        next_token: Returns the token after those of prompt and response so far.
        silent: Withholds all reports while set, as a process that hangs does.
        rounds, kv_tokens: What it reports of the cost of rounds, and of its KV cache.
        releasable: Whether it reports that it can release memory; `released`: what is released now; `release_limits`:
            limits of the calls that released, oldest first; `release_error` is raised instead, while set. Releases wait
            for `release_gate`, initially set.
        training: Whether it reports that its device trains.
        decode: Returns the text of tokens, for stop strings; None: it has no tokenizer.
        routes: Whether it returns routed experts.
        watchers: The gateways that watch it.
        reticent: Whether it conceals in its status that it is draining.
    """

    def __init__(
        self,
        worker_id: str = "w0",
        *,
        vocab_size: int = 100,
        context_length: int = 128,
        max_running: int = 8,
        policy_version: int = 0,
        security: ServerSecurity | None = None,
    ) -> None:
        super().__init__()
        self.worker_id = WorkerId(worker_id)
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.max_running = max_running
        self.policy_version = PolicyVersion(policy_version)
        self.address = "127.0.0.1:0"
        self.free_tokens = 0
        self.gate, self.commit_gate, self.stage_gate = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.release_gate = asyncio.Event()
        for gate in (self.gate, self.commit_gate, self.stage_gate, self.release_gate):
            gate.set()
        self.prompts: list[Prompt] = []
        self.running: set[RequestId] = set()
        self.hung_up: list[RequestId] = []
        self.aborted: list[RequestId] = []
        self._ending: dict[RequestId, asyncio.Event] = {}
        self._owners: dict[RequestId, str] = {}
        self.generate_error: TltError | None = None
        self.announce_error: TltError | None = None
        self.announced: dict[str, list[Prompt]] = {}
        self.stage_error: TltError | None = None
        self.commit_error: TltError | None = None
        self.staged: tuple[ReleaseId, dict[str, bytes]] | None = None
        self.orders: list[StageOrder] = []
        self._committed = ReleaseId(version=self.policy_version)
        self._source: str | None = None
        self._holds: dict[ReleaseId, list[TensorChunk]] = {}
        self.weights: dict[str, bytes] = {}
        self.updates: list[PolicyVersion] = []
        self.reticent = self.silent = False
        self.training = False
        self.rounds, self.kv_tokens = NO_ROUNDS, 0
        self.releasable = False
        self.released: set[str] = set()
        self.release_limits: list[float | None] = []
        self.release_error: TltError | None = None
        self.token_s = 0.0
        self.decode: Callable[[list[int]], str] | None = None
        self.routes = False
        self.watchers = Watchers(self._info, self.kept, rounds=lambda: self.rounds)
        self._auth = security
        self.drain = Drain()
        self._streams: list[RequestStream] = []
        self.prefixes = PrefixCache()
        self.next_token: Callable[[Sequence[int]], int] = lambda tokens: (tokens[-1] + 1) % self.vocab_size
        self._changed = asyncio.Condition()
        self._killed = asyncio.Event()
        self._server = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Serve, at the same address as before if there was one."""
        self._killed.clear()
        self.watchers = Watchers(self._info, self.kept, rounds=lambda: self.rounds)
        service = Service(name=wire.SERVICE_NAME, add=partial(wire.add_servicer, self))
        server = await self._server.enter_async_context(
            serving(self.address, service, security=self._auth, drain=self.drain)
        )
        self.address = f"127.0.0.1:{server.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()

    async def kill(self) -> None:
        """Stop at once: streams break, the port closes, nothing stays cached."""
        self.prefixes.clear()
        self._killed.set()
        self.watchers.close()
        for stream in self._streams:
            stream.close()
        self._streams.clear()
        await self._server.aclose()

    async def until(self, running: int) -> None:
        """Wait until exactly this many requests run."""
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.running) == running)

    async def GenerateMany(
        self, request_iterator: AsyncIterator[wire.pb.GenerateManyRequest], context: Any
    ) -> AsyncIterator[wire.pb.GenerateManyResponse]:
        stream = RequestStream(self._generate, self.drain, pace_s=0, kept=self.kept)
        self._streams.append(stream)
        async with aclosing(stream.parts(wire.requests_from_pb(request_iterator))) as messages:
            async for parts in messages:
                yield wire.parts_to_pb(parts)

    async def Announce(self, request: wire.pb.AnnounceRequest, context: Any) -> wire.pb.AnnounceResponse:
        if self.announce_error:
            raise self.announce_error
        prompts, samples = wire.announced_from_pb(request)
        self.announced[request.owner] = [prompt for prompt in prompts for _ in range(samples)]
        return wire.pb.AnnounceResponse()

    async def Abort(self, request: wire.pb.AbortRequest, context: Any) -> wire.pb.AbortResponse:
        wanted = set(request.request_ids)
        mine = {name for name in self._ending if self._owners[name] == request.owner}
        names = [
            name for name in self._ending if name in wanted or (name in mine and is_named(request_of(name), wanted))
        ]
        for name in names:
            self._ending[name].set()
        self.aborted += names
        ended = sorted({request_of(name) for name in names})
        return wire.pb.AbortResponse(aborted_count=len(ended), request_ids=ended)

    @property
    def release(self) -> ReleaseId:
        """The release served; without a key once a test has set `policy_version`."""
        same = self._committed.version == self.policy_version
        return self._committed if same else ReleaseId(version=self.policy_version)

    async def StageWeights(
        self, request_iterator: AsyncIterator[wire.pb.StageWeightsRequest], context: Any
    ) -> wire.pb.StageWeightsResponse:
        order, following = await wire.order_and_tensors(aiter(request_iterator))
        self.orders.append(order)
        require_newer(order, served=self.release, staged=self.staged and self.staged[0])
        tensors = [chunk async for chunk in following]
        if order.uri is not None:
            tensors += read(Path(order.uri.removeprefix("file://")) / FILE_NAME)
        elif order.peers:
            tensors = await fetched(order)
        await self.stage_gate.wait()
        if self.stage_error is not None:
            raise self.stage_error
        require_newer(order, served=self.release, staged=self.staged and self.staged[0])
        self._holds[order.release] = tensors
        self._source = order.uri
        digest, content = TensorDigest(), dict[str, bytes]()
        for tensor in tensors:
            digest.add(tensor)
            content[tensor.name] = content.get(tensor.name, b"") + tensor.data
        self.staged = order.release, content
        return wire.pb.StageWeightsResponse(staged_bytes=sum(map(len, content.values())), digest=digest.value)

    async def CommitWeights(self, request: wire.pb.CommitWeightsRequest, context: Any) -> wire.pb.CommitWeightsResponse:
        release = wire.release_from_pb(request.release)
        await self.commit_gate.wait()
        if self.commit_error is not None:
            raise self.commit_error
        if release == self.release:
            return wire.pb.CommitWeightsResponse()
        if self.staged is None or self.staged[0] != release:
            raise StaleVersionError(f"release {release} is not staged", field="release")
        self.weights, self.staged = self.staged[1], None
        self.policy_version, self._committed = release.version, release
        self.updates.append(self.policy_version)
        self.watchers.changed()
        return wire.pb.CommitWeightsResponse(pause_s=0.0)

    async def DiscardWeights(
        self, request: wire.pb.DiscardWeightsRequest, context: Any
    ) -> wire.pb.DiscardWeightsResponse:
        if self.staged and self.staged[0] == wire.release_from_pb(request.release):
            self.staged = None
        return wire.pb.DiscardWeightsResponse()

    async def FetchWeights(
        self, request: wire.pb.FetchWeightsRequest, context: Any
    ) -> AsyncIterator[wire.pb.FetchWeightsResponse]:
        tensors = self._holds.get(wire.release_from_pb(request.release))
        if tensors is None:
            raise NotFoundError("not held")
        for tensor in tensors:
            yield wire.fetched_to_pb(tensor)
        yield wire.pb.FetchWeightsResponse(end=wire.pb.FetchWeightsEnd(piece_count=len(tensors)))

    async def Watch(
        self, request_iterator: AsyncIterator[wire.pb.WatchRequest], context: Any
    ) -> AsyncIterator[wire.pb.WatchResponse]:
        demands = wire.demands_from_pb(request_iterator)
        async with aclosing(self.watchers.watch(demands)) as reports:
            async for report in reports:
                if not self.silent:
                    yield wire.report_to_pb(report)

    async def ReleaseMemory(self, request: wire.pb.ReleaseMemoryRequest, context: Any) -> wire.pb.ReleaseMemoryResponse:
        await self.release_gate.wait()
        if self.release_error is not None:
            raise self.release_error
        self.released |= set(request.tags) or {"weights", "kv_cache", "cuda_graph"}
        self.release_limits.append(request.limit_s if request.HasField("limit_s") else None)
        self.watchers.changed()
        return wire.pb.ReleaseMemoryResponse()

    async def ResumeMemory(self, request: wire.pb.ResumeMemoryRequest, context: Any) -> wire.pb.ResumeMemoryResponse:
        self.released -= set(request.tags) or {"weights", "kv_cache", "cuda_graph"}
        self.watchers.changed()
        return wire.pb.ResumeMemoryResponse()

    def _release_left_s(self) -> float:
        limit_s = self.release_limits[-1] if self.release_limits else None
        return math.inf if limit_s is None else limit_s

    def _info(self) -> WorkerInfo:
        return WorkerInfo(
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
            training=self.training,
            release=ServedRelease(id=self.release, uri=self._source),
            receiving=self.receiving,
            finds_stop_strings=self.decode is not None,
            returns_routed_experts=self.routes,
            kv_tokens=self.kv_tokens,
            releasable=self.releasable,
            released=bool(self.released),
            released_tags=tuple(sorted(self.released)),
            release_left_s=self._release_left_s() if self.released else 0.0,
        )

    async def _generate(self, prompt: Prompt) -> AsyncGenerator[TokenChunk, None]:
        if self.generate_error is not None:
            raise self.generate_error
        self.prompts.append(prompt)
        await self._count(prompt.request_id, +1)
        chunk: TokenChunk | None = None
        try:
            async for chunk in self._answer(prompt):
                yield chunk
        finally:
            if not ((chunk and chunk.finish_reason) or self._killed.is_set()):
                self.hung_up.append(prompt.request_id)
            self._ending.pop(prompt.request_id, None)
            await asyncio.shield(self._count(prompt.request_id, -1))

    async def _answer(self, prompt: Prompt) -> AsyncIterator[TokenChunk]:
        """Yield one token per chunk and round."""
        length = prompt.sampling.max_new_tokens or self.context_length - len(prompt.token_ids)
        before, tokens = len(prompt.prefix_token_ids), [*prompt.token_ids, *prompt.prefix_token_ids]
        cached = self.prefixes.cached(tokens, version=self.policy_version, key=prompt.cache_key)
        self.prefixes.add(tokens, key=prompt.cache_key)
        self._owners[prompt.request_id] = prompt.owner
        aborted = self._ending.setdefault(prompt.request_id, asyncio.Event())
        for count in range(before + 1, length + 1):
            if count - before > self.free_tokens:
                await self._pass_gate(aborted)
            if self.token_s:
                await asyncio.sleep(self.token_s)
            if aborted.is_set():
                yield Transcript(prompt).end(FinishReason.ABORT)
                return
            tokens.append(self.next_token(tokens))
            chunk = scripted_chunk(
                prompt, tokens, length, self.policy_version, self.worker_id, cached, self.decode, routes=self.routes
            )
            yield chunk
            if chunk.finish_reason:
                self.prefixes.add(tokens, key=prompt.cache_key)
                return

    async def _pass_gate(self, aborted: asyncio.Event) -> None:
        """
        Wait for the gate, or until the request is aborted.

        Raises:
            UnavailableError: The worker was killed while waiting.
        """
        await any_of(self.gate, self._killed, aborted)
        if self._killed.is_set():
            raise UnavailableError("killed")

    async def _count(self, request_id: RequestId, change: int) -> None:
        async with self._changed:
            (self.running.add if change > 0 else self.running.discard)(request_id)
            self._changed.notify_all()
