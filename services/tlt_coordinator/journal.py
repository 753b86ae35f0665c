"""The coordinator's journal. Every method returns immediately, and does nothing if no directory is configured."""

from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from tlt_common.domain.fleet import Publication, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import DrafterVersion, Epoch, WorkerId
from tlt_common.journal.coordinator_lines import (
    DrafterLine,
    ExcludedLine,
    LeaderLine,
    LeaseChange,
    LeaseLine,
    LendingLine,
    StateLine,
    TrainedLine,
    WorkerLine,
)
from tlt_common.journal.line import Line
from tlt_common.journal.writer import JournalWriter
from tlt_common.telemetry.optional import optional
from tlt_coordinator.account.figures import WorkerStanding
from tlt_coordinator.config import CoordinatorConfig


class CoordinatorJournal:
    """
    Args:
        writer: Writer of the journal; None writes nothing.
        now: Returns the Unix time.
    """

    def __init__(self, writer: JournalWriter | None, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now
        self._leads = False
        self._trained_s: dict[WorkerId, float] = {}

    @classmethod
    def open(cls, config: CoordinatorConfig, now: Callable[[], float]) -> Self:
        """Return the journal of a coordinator; it is written while its context is entered."""
        if config.journal is None:
            return cls(None, now)
        name = config.kubernetes.pod if config.kubernetes is not None else "coordinator"
        writer = JournalWriter(
            config.journal, service="coordinator", service_id=name, began_s=now(), max_bytes=config.journal_bytes
        )
        return cls(writer, now)

    def __enter__(self) -> Self:
        if self._writer is not None:
            self._writer.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, trace)

    @property
    def is_written(self) -> bool:
        """Whether there is a directory for it."""
        return self._writer is not None

    def leads(self, leads: bool) -> None:
        """Note that the coordinator lends from now on, or no longer; then nothing else is noted."""
        if leads:
            self._leads = True
            self._trained_s.clear()  # it counts from zero
        self._put(lambda at: LeaderLine(at=at, leads=leads))
        self._leads = leads

    def joined(self, hello: WorkerHello) -> None:
        """Record a worker that joined."""
        self._put(
            lambda at: WorkerLine(
                at=at,
                worker=hello.worker_id,
                device=hello.device,
                model=hello.model,
                devices=hello.devices,
                training_devices=min(hello.training_devices, hello.devices),
                slots=hello.max_running,
            )
        )

    def state(self, worker_id: WorkerId, state: WorkerState) -> None:
        """Record a worker's change of state."""
        self._put(lambda at: StateLine(at=at, worker=worker_id, state=state))

    def granted(self, worker_id: WorkerId, epoch: Epoch) -> None:
        """Record a granted lease."""
        change = LeaseChange.GRANTED
        self._put(lambda at: LeaseLine(at=at, worker=worker_id, epoch=epoch, change=change, reason=""))

    def revoked(self, worker_id: WorkerId, epoch: Epoch, reason: str) -> None:
        """Record a revoked lease."""
        change = LeaseChange.REVOKED
        self._put(lambda at: LeaseLine(at=at, worker=worker_id, epoch=epoch, change=change, reason=reason))

    def trained(self, standing: WorkerStanding, status: WorkerStatus) -> None:
        """Record a worker's training since the last record, and its trainer's report."""
        worker_id, total_s = standing.worker_id, standing.seconds[WorkerState.TRAINING]
        new_s = total_s - self._trained_s.get(worker_id, 0.0)
        if new_s <= 0.0:
            return
        self._trained_s[worker_id] = total_s
        self._put(
            lambda at: TrainedLine(
                at=at,
                worker=worker_id,
                seconds=new_s,
                steps=status.training_steps,
                tokens=status.training_tokens,
                passes=status.training_passes,
                gain=status.training_gain,
                load_s=status.drafter_pause_s,
            )
        )

    def published(self, publication: Publication, version: DrafterVersion) -> None:
        """Record a published drafter."""
        self._put(
            lambda at: DrafterLine(
                at=at,
                version=version,
                base=publication.base,
                worker=publication.worker_id,
                top1=publication.held_out_top1,
                base_top1=publication.base_top1,
                policy=publication.policy_version,
                tokens=publication.tokens,
            )
        )

    def lending(self, enabled: bool) -> None:
        """Record that lending was enabled or disabled."""
        self._put(lambda at: LendingLine(at=at, enabled=enabled))

    def excluded(self, worker_ids: Iterable[WorkerId]) -> None:
        """Record the set of excluded workers."""
        self._put(lambda at: ExcludedLine(at=at, workers=tuple(sorted(worker_ids))))

    def _put(self, made: Callable[[float], Line]) -> None:
        if self._writer is not None and self._leads:
            with optional("journal"):
                self._writer.put(made(self._now()))


NO_JOURNAL = CoordinatorJournal(None, lambda: 0.0)
"""Of a coordinator that writes none."""
