"""A queued or running request of a gateway."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tlt_common.domain.ids import DrafterVersion, RequestId, WorkerId
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_gateway.queue.queue_room import Reservation
from tlt_gateway.queue.room import Room
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.response_stream import ResponseStream


class RequestStage(StrEnum):
    """Where a request is."""

    NEW = "new"
    """It has not been at a worker."""
    RUNNING = "running"
    """A worker streams the response."""
    LEAVING = "leaving"
    """That worker was asked to end it, so that another continues. It stays so until the stream ends, whatever became of
    the call that asked: a call that failed may have been carried out, at any time."""
    MOVED = "moved"
    """The worker has ended it: it queues ahead of its owner's others."""
    AGAIN = "again"
    """Its worker refused it or was lost: it queues ahead of its owner's others."""


class Ending(StrEnum):
    """Why a request ends before its response is complete."""

    ABORTED = "aborted"
    """A client asked for it."""
    STALE = "stale"
    """Newer weights are served than it may continue with."""
    DRAINED = "drained"
    """This gateway shuts down, and waits no longer."""


@dataclass(slots=True, kw_only=True, eq=False)
class RequestStay:
    """A request at a worker, in loop time."""

    worker_id: WorkerId
    drafter: DrafterVersion
    began_s: float
    ended_s: float = 0.0
    tokens: int = 0
    """Generated there; while it is there, as many as there were before, negative."""
    is_moved: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class RunningRequest:
    """A queued or running request."""

    transcript: Transcript
    room: Room
    reservation: Reservation | None = None
    """Its place in the queue until it starts; None: it needs none."""
    hold: int | None = None
    """Number of the pause in which it arrived; None if it arrived in none."""
    stage: RequestStage = RequestStage.NEW
    ending: Ending | None = None
    response: ResponseStream | None = None
    """Set while a worker streams the response."""
    worker: PooledWorker | None = None
    """The worker of `response`."""
    attempt: RequestId = field(default=RequestId(""))
    """The id by which that worker knows it."""
    ref: int = 0
    """By which the journal knows it: says nothing of it."""
    stays: list[RequestStay] = field(default_factory=list)
    """Where it has been, and is."""
    prompt_hash: int = field(init=False)
    """Of the prompt's tokens; the same in every process."""

    def __post_init__(self) -> None:
        self.prompt_hash = hash(self.transcript.prompt.token_ids)

    @property
    def waits_first(self) -> bool:
        """Whether it queues ahead of its owner's others, since an earlier attempt has waited."""
        return self.stage is not RequestStage.NEW or self.transcript.prompt.attempt > 0

    @property
    def occupies(self) -> bool:
        """Whether a worker still generates for it; its client may not have read everything after that."""
        return self.response is not None and not self.response.is_complete

    def can_leave(self, worker: PooledWorker) -> bool:
        """Return whether it runs at this worker and may be moved. One that is leaving may be asked again."""
        return self.worker is worker and self.occupies and self.ending is None

    def begin(self, worker: PooledWorker, attempt: RequestId, response: ResponseStream, *, now_s: float) -> None:
        """Record that it is sent to a worker."""
        self.worker, self.attempt, self.response = worker, attempt, response
        self.stage = RequestStage.RUNNING
        drafter = worker.info.drafter_version if worker.info is not None else DrafterVersion(0)
        stay = RequestStay(worker_id=WorkerId(worker.name), drafter=drafter, began_s=now_s)
        stay.tokens = -self.transcript.generated
        self.stays.append(stay)
        self.started()

    def leave(self) -> None:
        """Record that its worker is asked to end it, so that another continues it."""
        if self.stage is RequestStage.RUNNING:
            self.stage = RequestStage.LEAVING

    def received(self, chunk: TokenChunk) -> TokenChunk:
        """Return a chunk of its worker as one of the response, which does not end when the request only leaves."""
        if self.stage is RequestStage.LEAVING and chunk.finish_reason is FinishReason.ABORT:
            self.stage = RequestStage.MOVED
            return replace(chunk, finish_reason=None, stats=None, routed_experts=None)
        return chunk

    def ended(self, *, now_s: float) -> None:
        """Record that its worker's stream has ended."""
        stay = self.stays[-1]
        stay.ended_s, stay.is_moved = now_s, self.stage is RequestStage.MOVED
        stay.tokens += self.transcript.generated
        if self.stage is not RequestStage.MOVED:
            self.stage = RequestStage.AGAIN
        self.response = self.worker = None

    def started(self) -> None:
        """Give back its place in the queue, which others may take now. Repeating it has no effect."""
        if self.reservation is not None:
            self.reservation.use()
            self.reservation = None
