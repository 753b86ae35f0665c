"""The gateway: assembles its components."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Never

from tlt_common import __version__
from tlt_common.domain.ids import DrafterVersion, RequestId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.response import TokenChunk
from tlt_common.domain.server_info import NO_BUBBLES, ServerInfo
from tlt_common.load import GatewayLoad
from tlt_common.rpc.channel import connect
from tlt_common.rpc.limits import RETRY_AFTER_S
from tlt_common.rpc.security.access import caller_name
from tlt_common.rpc.security.tokens import Scope, tokens_in
from tlt_common.telemetry import metrics
from tlt_common.telemetry.optional import kept_running, optional, unfailing
from tlt_gateway.config import GatewayConfig
from tlt_gateway.fleet.fleet_memory import FleetMemory
from tlt_gateway.fleet.pauses import Pauses
from tlt_gateway.fleet.peers import GatewayPeers
from tlt_gateway.fleet.queue_report import REPORT_S, QueueReport
from tlt_gateway.journal.journal import GatewayJournal
from tlt_gateway.queue.admission import Admission
from tlt_gateway.queue.queue_capacity import OWNER_SHARE, QueueLimits
from tlt_gateway.queue.slots import WorkerSlots
from tlt_gateway.requests.announcements import Announcements
from tlt_gateway.requests.batch import Batches
from tlt_gateway.requests.dispatch import MAX_MOVES, Dispatch
from tlt_gateway.requests.lengths import RequestLengths
from tlt_gateway.requests.other_gateways import abort_on
from tlt_gateway.requests.requests import Requests
from tlt_gateway.requests.running_request import RunningRequest
from tlt_gateway.weights.collected_updates import CollectedUpdates
from tlt_gateway.weights.fanout import WeightsFanout
from tlt_gateway.weights.named_adapters import NamedAdapters
from tlt_gateway.weights.release_store import ReleaseStore
from tlt_gateway.weights.two_phases import STRAGGLER_S
from tlt_gateway.workers.discovery import KnownWorkers, follow_fleet, follow_name
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker
from tlt_gateway.workers.routing import AFFINITY_TOKENS, SPILL_LOAD
from tlt_gateway.workers.worker_pool import PROBE_S, WorkerPool


class Gateway:
    """Generates responses on the known workers. Construct it inside a running event loop."""

    def __init__(self, config: GatewayConfig, *, spool_dir: Path) -> None:
        self._config = config
        self._tokens = tokens_in(config.tokens) if config.tokens else None
        self._journal = GatewayJournal(
            config.journal,
            config.gateway_id,
            max_bytes=config.journal_bytes,
            workers=lambda: self._pool.workers,
        )
        self._pool = WorkerPool(
            partial(connect, to="worker", tls=config.tls),
            fixed=config.workers,
            gateway_id=config.gateway_id,
            probe_s=PROBE_S,
            silence_s=config.silence_s,
            stage_s=config.stage_s,
        )
        self._report = (
            QueueReport(
                config.coordinator,
                config.gateway_id,
                report_s=REPORT_S,
                tls=config.tls,
                pause_left_s=lambda: self.pauses.current.left_s,
                load=self._load,
            )
            if config.coordinator
            else None
        )
        self._slots = slots = WorkerSlots(self._pool, spill_load=SPILL_LOAD, affinity_tokens=AFFINITY_TOKENS)
        self._admission: Admission[PooledWorker] = Admission(
            slots,
            limits=QueueLimits(
                requests=config.max_queued,
                tokens=config.max_queued_tokens,
                owner_share=OWNER_SHARE,
            ),
            worker_wait_s=config.worker_wait_s,
            retry_after_s=RETRY_AFTER_S,
            on_change=self._queue_changed,
            weight_of=lambda name: self._tokens.current().weight_of(name) if self._tokens else 1.0,
        )
        self._pool.when_slot_free(self._admission.pump)
        self._peers = GatewayPeers(config.peers, tls=config.tls)
        self.requests = Requests(self._admission.withdraw, self._over)
        self._lengths = RequestLengths(lambda: self.requests)
        self._dispatch = Dispatch(
            self._pool,
            self._admission,
            self.requests,
            worker_wait_s=config.worker_wait_s,
            max_moves=MAX_MOVES,
            share_cache=config.share_cache,
            over=unfailing("journal", self._journal.response),
        )
        self.pauses = Pauses(
            self._pool,
            self._admission,
            self.requests,
            self._peers,
            max_s=config.max_pause_s,
            changed=unfailing("journal", self._journal.pause),
        )
        self.memory = FleetMemory(self._pool, lambda: self.requests.running)
        self.batches = Batches(self._dispatch, self._admission)
        self.announcements = Announcements(self._dispatch, self._pool, self.batches)
        self.weights = WeightsFanout(
            self._pool,
            ReleaseStore(spool_dir, shared=config.spool_shared, volume_bytes=config.spool_bytes),
            straggler_s=STRAGGLER_S,
            over=unfailing("journal", self._journal.update),
        )
        self.collected = CollectedUpdates(self._pool, self.weights)
        self.adapters = NamedAdapters(self._pool, self.weights)

    async def run(self) -> Never:
        """Run until cancelled; if a component that rollouts depend on fails, all are cancelled."""
        async with asyncio.TaskGroup() as parts:
            parts.create_task(self._journal.run(), name="journal")
            parts.create_task(self.weights.run(), name="weights")
            parts.create_task(self._pool.run(self._admit), name="worker pool")
            known = KnownWorkers(self._pool.see, file=self._config.known_workers)
            for name, run in self._optional(known):
                parts.create_task(kept_running(name, run), name=name)
        raise AssertionError("the gateway's components ended without being cancelled")

    def _optional(self, known: KnownWorkers) -> Iterator[tuple[str, Callable[[], Awaitable[Never]]]]:
        """Yield the components that the gateway can run without: known workers stay in use."""
        yield "known workers", known.run
        if coordinator := self._config.coordinator:
            fleet = partial(follow_fleet, coordinator, known, self._set_lending, tls=self._config.tls)
            yield "discovery", fleet
        if self._config.worker_service:
            yield "worker service", partial(follow_name, self._config.worker_service, known)
        if self._report:
            yield "report", self._report.run

    @asynccontextmanager
    async def generating(self, prompt: Prompt) -> AsyncIterator[AsyncGenerator[TokenChunk, None]]:
        """
        Admit one prompt; yield the stream of its chunks. Leaving the block aborts the request.

        Raises:
            InvalidRequestError: The prompt does not fit the model.
            OverloadedError: The queue is full.
            TltError: As for `Dispatch.stream`.
        """
        tokens = len(prompt.token_ids) + len(prompt.prefix_token_ids)
        reserved = self._admission.capacity.reserved(caller_name.get(), tokens=tokens, field="prompt.token_ids")
        with reserved as reservation:
            stream = self._dispatch.stream(await self._dispatch.checked(prompt), reservation=reservation)
            async with aclosing(stream) as chunks:
                yield chunks

    async def abort(
        self, request_ids: Sequence[RequestId], *, everything: bool, from_peer: bool, authorization: str | None = None
    ) -> set[RequestId]:
        """
        Abort requests of the caller at this gateway, at its peers and, if they are attempts of a lost gateway, on the
        workers.

        Args:
            request_ids: Ids of requests, or of prompts in batches.
            everything: Abort all requests of the caller or, if its token may update weights, of all callers.
            from_peer: The caller is a peer, which calls the other peers and the workers itself.
            authorization: The caller's credential, passed on to peers.

        Returns:
            The ids of the requests that were queued or running.
        """
        owner = caller_name.get()
        if everything:
            aborted = self.requests.abort_all(owner=None if self._controls(owner) else owner)
        else:
            aborted = self.requests.abort(request_ids, owner=owner)
        if from_peer:
            return aborted
        aborted |= await self._peers.abort(request_ids, everything=everything, authorization=authorization)
        if request_ids:
            aborted |= await abort_on(self._pool.workers, request_ids, owner=owner)
        return aborted

    def finish_session(self, session_id: str, *, owner: str) -> bool:
        """Forget a session of a token's owner; return whether it was known. Its running requests continue."""
        return self._slots.placing.forget(session_id, owner=owner)

    @property
    def info(self) -> ServerInfo:
        """The current state of the server. Model and sizes are empty until the first worker connects."""
        infos = [worker.info for worker in self._pool.workers if worker.info is not None]
        return ServerInfo(
            model=infos[0].model if infos else "",
            vocab_size=infos[0].vocab_size if infos else 0,
            context_length=min((info.context_length for info in infos), default=0),
            policy_version=self._pool.version,
            drafter_version=min((info.drafter_version for info in infos), default=DrafterVersion(0)),
            workers=sum(worker.state is PooledState.READY for worker in self._pool.workers),
            queued=self._admission.queued,
            running=self.requests.running,
            server_version=__version__,
            pause=self.pauses.current,
            released=self.memory.released,
            bubbles=self._report.bubbles if self._report else NO_BUBBLES,
        )

    async def _admit(self, worker: PooledWorker) -> None:
        if await self.memory.admits(worker):
            await self.weights.admit(worker)

    def _controls(self, name: str) -> bool:
        return self._tokens is None or self._tokens.current().allows(name, Scope.UPDATE_WEIGHTS)

    async def _load(self) -> GatewayLoad:
        return replace(await self._lengths.load(), announced=self.announcements.untold())

    def _over(self, request: RunningRequest) -> None:
        if self._report:  # else nobody asks for them
            with optional("lengths"):
                self._lengths.over(request)

    def _set_lending(self, lending: bool) -> None:
        self._slots.placing.table.pack = self._config.pack_running if lending else 0

    def _queue_changed(self, queued: int) -> None:
        metrics.GATEWAY_QUEUED.set(queued)
        self._pool.demand(queued)
        if self._report:
            self._report.update(queued)
