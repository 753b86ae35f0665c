"""The workers this gateway routes to, and their states."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import Never, TypeAlias

import grpc

from tlt_common.aio import Signal
from tlt_common.domain.fleet import WatchReport, WorkerInfo
from tlt_common.domain.ids import PolicyVersion
from tlt_common.domain.pause import Pause
from tlt_common.domain.weights import ReleaseId
from tlt_common.errors import TltError, UnavailableError
from tlt_common.telemetry.log import get_logger
from tlt_gateway.workers.fleet_pause import FleetPause
from tlt_gateway.workers.pooled_worker import PooledState, PooledWorker, WorkerStates, count_lost
from tlt_gateway.workers.remote_worker import RemoteWorker
from tlt_gateway.workers.silence import judge_silence, late

log = get_logger(__name__)

Admit: TypeAlias = Callable[[PooledWorker], Awaitable[None]]

PROBE_S = 1.0
"""
Seconds between attempts to reach a lost worker; also the delay before one is used again. Short compared to the start of
a worker, and long enough that a worker that fails immediately does not get the same requests repeatedly.
"""
BEHIND_PROBES = 5
"""Intervals of `PROBE_S` before another attempt to update a worker that is behind, since each attempt loads weights."""
FRESH_S = 5.0
"""Seconds for which `fresh` waits for a report."""


class WorkerPool:
    """
    One `PooledWorker` per worker, each of which reports its state in a watch.

    A worker is lost by evidence: the watch or a response fails, or the worker is silent while this process runs on
    schedule and others are heard (`silence.py`). It gets no requests until it reports again; requests that run on it
    move, except that those of a worker whose watch alone failed continue as long as their own streams do. A worker is
    removed only once it is neither listed nor reachable, since a restarted coordinator lists none at first.

    A worker that reports, but does not serve `version`, is passed to the `admit` callback of `run`, one call at a time
    per worker. It calls `ready` for a worker that serves the fleet's version, `behind` for one that does not yet, and
    `lose` for one it cannot reach; a worker that it leaves behind is passed to it again.
    """

    def __init__(
        self,
        connect: Callable[[str], grpc.aio.Channel],
        *,
        fixed: Iterable[str] = (),
        gateway_id: str,
        probe_s: float,
        silence_s: float | None,
        stage_s: float,
    ) -> None:
        self._served = ReleaseId(version=PolicyVersion(0))
        self.version_changed = Signal()
        """Set when `served` changes."""
        self._connect = connect
        self._fixed = frozenset(fixed)
        self._gateway_id = gateway_id
        self._probe_s = probe_s
        self._silence_s = silence_s
        self._stage_s = stage_s
        self._queued = 0
        self._workers: dict[str, PooledWorker] = {}
        self._arrivals: asyncio.Queue[tuple[PooledWorker, grpc.aio.Channel]] = asyncio.Queue()
        self._model: WorkerInfo | None = None
        self._model_known = asyncio.Event()
        self._absent_since_s: float | None = asyncio.get_running_loop().time()
        self._on_slot_free: Callable[[], None] = lambda: None
        self._on_change: Callable[[PooledWorker], None] = lambda _: None
        self._states = WorkerStates()
        self._shared: dict[str, PooledWorker] = {}
        """Workers that other gateways share, by address."""
        self._pause: FleetPause | None = None

    @property
    def version(self) -> PolicyVersion:
        """The policy version served."""
        return self._served.version

    @property
    def served(self) -> ReleaseId:
        """The release served. Set by `WeightsFanout` only."""
        return self._served

    @served.setter
    def served(self, release: ReleaseId) -> None:
        self._served = release
        self.version_changed.set()

    @property
    def workers(self) -> tuple[PooledWorker, ...]:
        """All workers, including lost ones."""
        return tuple(self._workers.values())

    @property
    def absent_since_s(self) -> float | None:
        """Loop time since which no worker has been ready or about to be; None while one is."""
        return self._absent_since_s

    def when_slot_free(self, callback: Callable[[], None]) -> None:
        """Set the callback that is called whenever a slot may have become available."""
        self._on_slot_free = callback

    def when_changed(self, callback: Callable[[PooledWorker], None]) -> None:
        """Set the callback for changes of what `PooledWorker.candidate` returns."""
        self._on_change = callback

    @property
    def finds_stop_strings(self) -> bool:
        """Whether all known workers support stop strings. Older ones would ignore them."""
        return all(worker.info.finds_stop_strings for worker in self.workers if worker.info is not None)

    @property
    def returns_routed_experts(self) -> bool:
        """Whether all known workers return routed experts. Another attempt may run on any of them."""
        return all(worker.info.returns_routed_experts for worker in self.workers if worker.info is not None)

    async def model(self, wait_s: float) -> WorkerInfo:
        """
        Return the fleet's model as reported by the first ready worker, waiting for one if necessary.

        Raises:
            UnavailableError: No worker became ready within `wait_s` seconds.
        """
        if self._model is None:
            try:
                await asyncio.wait_for(self._model_known.wait(), wait_s)
            except TimeoutError:
                raise UnavailableError(f"no worker has been available for {wait_s:g} s") from None
        assert self._model is not None  # noqa: S101 - set before the event
        return self._model

    async def run(self, admit: Admit) -> Never:
        """Run until cancelled. `admit` is described at the class."""
        for address in self._fixed:
            self._add(address)
        async with asyncio.TaskGroup() as group:
            group.create_task(judge_silence(lambda: self.workers, self._hang, self._silence_s), name="silence")
            while True:
                worker, channel = await self._arrivals.get()
                group.create_task(self._attend(worker, channel, admit), name=f"worker {worker.address}")

    def see(self, addresses: Iterable[str]) -> None:
        """Apply the coordinator's list of workers, by address."""
        listed = {*addresses, *self._fixed}
        for worker in self.workers:
            worker.wanted = worker.address in listed
        for address in listed - self._workers.keys():
            self._add(address)

    def share_pause(self, pause: FleetPause) -> None:
        """Set the pause to exchange with workers."""
        self._pause = pause

    def tell_pause(self) -> None:
        """Send a changed pause to all workers."""
        for worker in self._workers.values():
            worker.demands.ask()

    def demand(self, queued: int) -> None:
        """Set the number of queued requests, from which the workers derive this gateway's share of their slots."""
        self._queued = queued
        for worker in self._shared.values():
            worker.demands.changed()

    async def fresh(self, worker: PooledWorker) -> WorkerInfo:
        """
        Ask a worker for its state and return it.

        Raises:
            UnavailableError: It did not answer within `FRESH_S`.
        """
        if worker.info is None or await late([worker], FRESH_S):
            raise UnavailableError(f"worker {worker.name} did not report its state within {FRESH_S:g} s")
        return worker.info

    async def refresh(self, within_s: float) -> None:
        """Ask all reachable workers for their state; wait at most `within_s` seconds for the reports."""
        await late([one for one in self.workers if one.answers], within_s)

    def ready(self, worker: PooledWorker, info: WorkerInfo) -> None:
        """Mark a worker that serves the fleet's version as ready, or as leaving if it is draining."""
        worker.info = info
        if info.draining:
            self._enter(worker, PooledState.LEAVING)
            return
        if self._model is None:
            self._model = info
            self._model_known.set()
        self._enter(worker, PooledState.READY)
        self._on_slot_free()

    def behind(self, worker: PooledWorker, info: WorkerInfo) -> None:
        """Mark a reachable worker as behind: it gets no requests until it serves the fleet's version."""
        worker.info = info
        self._enter(worker, PooledState.BEHIND)

    def refused(self, worker: PooledWorker) -> None:
        """Mark a worker as leaving after it refused a request because it is draining."""
        if worker.info is not None and worker.state is PooledState.READY:
            worker.info = replace(worker.info, draining=True)
            self._enter(worker, PooledState.LEAVING)

    def lose(self, worker: PooledWorker, why: str, *, evidence: str = "call") -> None:
        """Mark a worker as lost: it gets no requests for `probe_s` seconds, and then until it reports again."""
        if worker.answers:
            count_lost(evidence)
        worker.losses += 1
        loop = asyncio.get_running_loop()
        worker.usable_at_s = loop.time() + self._probe_s
        loop.call_later(self._probe_s, worker.demands.ask)
        self._enter(worker, PooledState.LOST, why=why)

    def _hang(self, worker: PooledWorker, why: str) -> None:
        self.lose(worker, why, evidence="silence")
        worker.remote.give_up(f"worker {worker.name}: {why}")

    def _add(self, address: str) -> PooledWorker:
        channel = self._connect(address)
        remote = RemoteWorker(channel, stage_s=self._stage_s)
        worker = PooledWorker(
            address,
            remote,
            gateway_id=self._gateway_id,
            queued=lambda: self._queued,
            pause=lambda: self._pause.current if self._pause else Pause(),
        )
        self._workers[address] = worker
        self._states.change(None, worker.state)
        self._arrivals.put_nowait((worker, channel))
        return worker

    async def _attend(self, worker: PooledWorker, channel: grpc.aio.Channel, admit: Admit) -> None:
        async with channel, asyncio.TaskGroup() as tasks:
            beside = [tasks.create_task(part) for part in (worker.remote.exchange(), self._admit(worker, admit))]
            while worker.wanted or worker.answers:
                self.lose(worker, await self._watch(worker), evidence="watch")
                await asyncio.sleep(self._probe_s)
            # At once: listed again while its tasks and its connection end, the address is a new worker.
            del self._workers[worker.address]
            self._shared.pop(worker.address, None)
            self._states.change(worker.state, None)
            for task in beside:
                task.cancel()

    async def _watch(self, worker: PooledWorker) -> str:
        """Follow a worker's reports until they end; return why they ended."""
        first = True
        try:
            async with aclosing(worker.remote.watch(worker.demands.messages())) as reports:
                async for report in reports:
                    # Within one stream, an older version was sent before a commit that has been answered since.
                    if first or worker.info is None or report.info.policy_version >= worker.info.policy_version:
                        self._reported(worker, report)
                    first = False
        except TltError as error:
            return error.message
        return "the worker stopped reporting"

    def _reported(self, worker: PooledWorker, report: WatchReport) -> None:
        if self._pause is not None:
            self._pause.hear(report.pause)  # first of all: no request may start
        worker.heard(report)
        if worker.shared:
            self._shared[worker.address] = worker
        else:
            self._shared.pop(worker.address, None)
        info = report.info
        if worker.state is PooledState.LOST and asyncio.get_running_loop().time() < worker.usable_at_s:
            return
        if self._model is not None and info.vocab_size != self._model.vocab_size:
            self.lose(worker, f"vocab_size of {info.model} is {info.vocab_size}, the fleet's {self._model.vocab_size}")
        elif self._serves(worker):
            self.ready(worker, info)
        else:
            if info.served.id < self.served:
                self.behind(worker, info)  # it was restarted: no request may reach it before the update
            else:
                self._on_change(worker)
            worker.admissible.set()

    async def _admit(self, worker: PooledWorker, admit: Admit) -> None:
        while True:
            await worker.admissible.wait()
            worker.admissible.clear()
            if not self._serves(worker):
                await admit(worker)
            if worker.state is PooledState.BEHIND:
                await asyncio.sleep(self._probe_s * BEHIND_PROBES)

    def _serves(self, worker: PooledWorker) -> bool:
        """Whether the worker was admitted, and still serves the fleet's version."""
        admitted = worker.state in {PooledState.READY, PooledState.LEAVING}
        return admitted and worker.info is not None and worker.info.served.id == self.served

    def _enter(self, worker: PooledWorker, state: PooledState, *, why: str = "") -> None:
        if worker.state is not state:
            event = log.info if state is PooledState.READY else log.warning
            event(
                "worker_state", worker=worker.name, address=worker.address, previous=worker.state, state=state, why=why
            )
            self._states.change(worker.state, state)
        worker.state = state
        self._on_change(worker)
        if self._states.of(PooledState.READY) + self._states.of(PooledState.BEHIND):
            self._absent_since_s = None
        elif self._absent_since_s is None:
            self._absent_since_s = asyncio.get_running_loop().time()
