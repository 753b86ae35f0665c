"""One worker: the parts around its engine and their lifetimes."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Never

from tlt_common.changes import Changes
from tlt_common.domain.fleet import DrafterWish, Lease, Revocation, WorkerHello, WorkerInfo, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt
from tlt_common.domain.weights import MAX_WEIGHTS_BYTES
from tlt_common.errors import EngineError
from tlt_common.rpc.channel import connect
from tlt_common.telemetry import metrics
from tlt_common.telemetry.log import get_logger
from tlt_common.telemetry.optional import kept_running
from tlt_common.weights.spool import fitting
from tlt_worker.activity import Activity
from tlt_worker.config import WorkerConfig
from tlt_worker.engine.base import Engine, EngineInfo
from tlt_worker.lending.coordinator_stream import CoordinatorStream, Order
from tlt_worker.lending.held_lease import HeldLease
from tlt_worker.lending.released_memory import ReleasedMemory
from tlt_worker.lending.state_history import StateHistory
from tlt_worker.lending.trainer import Trainer
from tlt_worker.lending.trainer_process import TrainerWatch
from tlt_worker.requests.ahead import Ahead
from tlt_worker.requests.generation import Generation
from tlt_worker.requests.kept import Kept
from tlt_worker.requests.startup import OWNER as STARTUP
from tlt_worker.requests.watchers import Watchers
from tlt_worker.speculation.frame_sender import OFF, FrameSender
from tlt_worker.speculation.round_log import RoundLog
from tlt_worker.speculation.served_drafter import ServedDrafter
from tlt_worker.speculation.tuner_stream import TunerStream
from tlt_worker.weights.receiving.collected_tensors import CollectedTensors
from tlt_worker.weights.receiving.receiver import Receiver
from tlt_worker.weights.served_weights import ServedWeights
from tlt_worker.weights.source import WeightSources
from tlt_worker.weights.staging import Staging

log = get_logger(__name__)

OPTIONAL = frozenset({"ahead", "capture", "reporting", "rounds", "lease"})
"""Parts without which the worker serves requests; the others end it if they fail."""
LAST_REPORT_S = 0.2
"""Time in which a worker whose engine has died tells the coordinator why, so that operators see it at once."""


class Worker:
    """
    The parts of one worker around a started engine.

    Args:
        spool_dir: Directory for streamed weights.
        trainer: The spot trainer; None declines all leases.
        startup: Responses to compute under leases until the fleet has a drafter.
    """

    def __init__(
        self,
        config: WorkerConfig,
        engine: Engine,
        info: EngineInfo,
        spool_dir: Path,
        *,
        trainer: Trainer | None = None,
        startup: Sequence[Prompt] = (),
    ) -> None:
        self._config = config
        self._engine = engine
        self._engine_info = info
        self._worker_id = WorkerId(config.worker_id)
        self._stream: CoordinatorStream | None = None
        self.activity = Activity()
        self.activity.on_transition(self._note_transition)
        self.changes = Changes()
        self.memory = ReleasedMemory(
            engine,
            self.activity,
            self.changes,
            self.make_way,
            trainer.process if trainer else None,
            releasable=info.releasable,
        )
        max_bytes = fitting(MAX_WEIGHTS_BYTES, volume_bytes=config.spool_bytes)
        sources = WeightSources(prefixes=config.sources, max_bytes=max_bytes)
        self.weights = ServedWeights(
            engine,
            self.changes,
            self.activity,
            self.make_way,
            self.memory.require_weights,
            model=config.model,
            staging=Staging(
                spool_dir,
                sources,
                partial(connect, to="worker", tls=config.tls),
                check=engine.check_weights,
                model=config.model,
            ),
        )
        self.kept = Kept()
        self.watchers = Watchers(lambda: self.info, self.kept, rounds=lambda: self.rounds.worked)
        self.receiver = Receiver(
            CollectedTensors(spool_dir, config.model, lambda: self.weights.directory),
            spool_dir=spool_dir,
            sources=sources,
            on_change=self.watchers.changed,
        )
        self.drafter = ServedDrafter(
            engine,
            self.changes,
            self.activity,
            replace(sources, prefixes=(*sources.prefixes, *filter(None, [config.drafter_dir]))),
            loaded=DrafterVersion(1 if config.engine.drafter else 0),
        )
        self.generation = Generation(
            engine,
            info,
            self.activity,
            worker_id=self._worker_id,
            policy_version=lambda: self.weights.version,
            make_way=self.make_way,
        )
        self.ahead = Ahead(engine, self.activity, places=info.max_running, policy_version=lambda: self.weights.version)
        self.ahead.announce(STARTUP, startup, limited=False)
        self._trainer = trainer
        self.rounds = RoundLog(engine)
        self.spot = trainer and HeldLease(
            trainer.link,
            self.activity,
            policy=self._policy,
            drafter=lambda: self.drafter.version,
            accept_length=lambda: self.rounds.accept_length,
            kill=trainer.process.kill,
            on_change=self._tell_coordinator,
        )
        engine.set_capture(OFF)
        self._retired, self._ended = False, ""
        self._history = StateHistory()
        self._history.note(self._state, time.monotonic())

    @property
    def info(self) -> WorkerInfo:
        return WorkerInfo(
            worker_id=self._worker_id,
            model=self._engine_info.model,
            vocab_size=self._engine_info.vocab_size,
            context_length=self._engine_info.context_length,
            finds_stop_strings=self._engine_info.finds_stop_strings,
            returns_routed_experts=self._engine_info.returns_routed_experts,
            max_running=self._engine_info.max_running,
            policy_version=self.weights.version,
            drafter_version=self.drafter.version,
            running=self.activity.running,
            device=self._engine_info.device,
            draining=self._retired,
            training=self.activity.state is WorkerState.TRAINING,
            release=self.weights.release,
            receiving=self.receiver.active,
            kv_tokens=self._engine_info.kv_tokens,
            releasable=self.memory.releasable,
            released=self.activity.released,
            released_tags=tuple(sorted(self.memory.tags)),
            release_left_s=self.memory.left_s,
        )

    @property
    def status(self) -> WorkerStatus:
        progress = self.spot.progress if self.spot else None
        return WorkerStatus(
            state=self._state,
            running=self.activity.running,
            policy_version=self.weights.version,
            drafter_version=self.drafter.version,
            epoch=self.spot.epoch if self.spot else Epoch(0),
            accept_length=self.rounds.accept_length,
            produced_tokens=self.generation.produced_tokens,
            arm=self.rounds.arm,
            training_steps=progress.steps if progress else 0,
            training_tokens=progress.tokens if progress else 0,
            training_loss=progress.loss if progress else 0.0,
            trainer_ready=self._has_trainer,
            lent=self.spot.lent if self.spot else False,
            training_s=self.spot.trained.seconds if self.spot else 0.0,
            training_age_s=self.spot.training_age_s if self.spot else 0.0,
            trainer_resting=self.spot.resting if self.spot else False,
            training_gain=progress.gain if progress else None,
            training_passes=progress.passes if progress else 0.0,
            drafter_pause_s=self.drafter.pause_s,
            problem="; ".join(filter(None, (self._ended, self.drafter.problem, self._trainer_problem))),
        )

    @property
    def _state(self) -> WorkerState:
        """The state of the worker's devices. If they are unused, its trainer gives the reason."""
        state = self.activity.state
        return self.spot.unused if self.spot and state is WorkerState.IDLE and not self._retired else state

    @property
    def _trainer_problem(self) -> str:
        """Why its trainer does not run or cannot continue from the drafter; empty if it does or there is none."""
        progress = self.spot.progress if self.spot else None
        if progress is not None:
            return progress.problem
        return self._trainer.process.problem if self._trainer else ""

    @property
    def _has_trainer(self) -> bool:
        return bool(self.spot and self.spot.ready) and not self._retired

    def make_way(self) -> None:
        """Take the device back from the trainer if it holds it. Returns immediately."""
        if self.spot:
            self.spot.make_way()

    async def retire(self, _within_s: float = 0.0) -> None:
        """Prepare for shutdown: report draining to gateways and decline leases. Running requests continue."""
        self._retired = True
        self.watchers.changed()
        if self.spot:
            self.spot.retire()

    async def run(self, address: str) -> Never:
        """
        Run until cancelled, reachable at `address`.

        Raises:
            EngineError: The engine died.
        """
        try:
            async with asyncio.TaskGroup() as parts:
                for name, run in self._parts(address):
                    parts.create_task(kept_running(name, run) if name in OPTIONAL else run(), name=name)
                self._ended = f"the engine died: {await self._engine.died()}"
                self._tell_coordinator()
                await asyncio.sleep(LAST_REPORT_S)
                raise EngineError(self._ended)
        finally:
            self.watchers.close()

    def _parts(self, address: str) -> Iterator[tuple[str, Callable[[], Coroutine[None, None, None]]]]:
        yield "changes", self.changes.run
        yield "memory", self.memory.run
        yield "drafter", self.drafter.run
        yield "ahead", self.ahead.run
        if self._config.cache:
            yield "capture", FrameSender(self._engine, self._config.cache, tls=self._config.tls).run
        if self._config.tuner:
            reporting = TunerStream(
                self._engine,
                self._engine_info,
                self._config.tuner,
                worker_id=self._worker_id,
                fleet=self._config.fleet,
                tls=self._config.tls,
            )
            self.rounds.on_report(reporting.add)
            yield "reporting", reporting.run
        yield "rounds", self.rounds.run
        if self._trainer and self.spot:
            spot, process = self.spot, self._trainer.process
            watch = TrainerWatch(
                answers=lambda: spot.progress is not None,
                kill=process.kill,
                waits=lambda: process.waits,
                limit_s=self._config.liveness_s,
            )

            def lose() -> None:
                spot.lose_trainer()
                watch.restarted()

            yield "trainer", partial(process.run, on_exit=lose)
            yield "trainer-watch", watch.run
            yield "spot", self.spot.run
            yield "spot-watch", self.spot.watch
            yield "spot-policy", self.spot.notice.run
        if self._config.coordinator:
            self._stream = CoordinatorStream(
                self._config.coordinator,
                lambda: self._hello(address),
                status=lambda: self.status,
                obey=self._obey,
                tls=self._config.tls,
            )
            yield "lease", self._stream.run

    def _hello(self, address: str) -> WorkerHello:
        return WorkerHello(
            worker_id=self._worker_id,
            address=address,
            model=self._engine_info.model,
            device=self._engine_info.device,
            max_running=self._engine_info.max_running,
            pod=self._config.pod,
            devices=self._engine_info.devices,
            history=self._history.changes(time.monotonic()),
        )

    def _obey(self, order: Order) -> None:
        match order:
            case DrafterWish():
                self.drafter.wish(order)
                self.ahead.announce(STARTUP, ())  # there is something to begin with
            case Lease() if self.spot:
                self.spot.grant(order)
            case Revocation() if self.spot:
                self.spot.revoke(order)
            case _:
                log.warning("order_without_trainer", order=type(order).__name__)

    def _policy(self) -> tuple[Path, PolicyVersion]:
        return self.weights.directory, self.weights.version

    def _note_transition(self, previous: WorkerState, current: WorkerState) -> None:
        metrics.WORKER_DEVICE_STATE.labels(state=previous.value).set(0)
        metrics.WORKER_DEVICE_STATE.labels(state=current.value).set(1)
        log.debug("state_changed", previous=previous.value, current=current.value)
        if previous is WorkerState.TRAINER:
            self.drafter.retry()
        if self.spot and previous is WorkerState.UPDATING:
            self.spot.notice.give()
        self.watchers.changed()
        self._tell_coordinator()

    def _tell_coordinator(self) -> None:
        self._history.note(self._state, time.monotonic())
        if self._stream:
            self._stream.poke()
