"""A queued or running request of a gateway."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from tlt_common.domain.ids import DrafterVersion, RequestId, WorkerId
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_common.domain.transcript import Transcript
from tlt_gateway.queue.gate import Gate
from tlt_gateway.queue.queue_capacity import Reservation
from tlt_gateway.workers.pooled_worker import PooledWorker
from tlt_gateway.workers.response_stream import ResponseStream


class RequestStage(StrEnum):
    """Stage of a request."""

    NEW = "new"
    """Not sent to any worker yet."""
    RUNNING = "running"
    """A worker is streaming the response."""
    LEAVING = "leaving"
    """
    The worker was asked to end it, so that another continues it. The stage lasts until the stream ends, even if the
    call failed: a failed call may still be executed at any time.
    """
    MOVED = "moved"
    """The worker has ended it; it is queued ahead of its owner's other requests."""
    AGAIN = "again"
    """The worker refused it or was lost; it is queued ahead of its owner's other requests."""


class Ending(StrEnum):
    """Why a request ends before its response is complete."""

    ABORTED = "aborted"
    """A client requested it."""
    STALE = "stale"
    """The served weights are newer than it may continue with."""
    DRAINED = "drained"
    """This gateway shuts down and its grace period is over."""


@dataclass(slots=True, kw_only=True, eq=False)
class RequestStay:
    """A stay of a request at a worker, in loop time."""

    worker_id: WorkerId
    drafter: DrafterVersion
    began_s: float
    ended_s: float = 0.0
    tokens: int = 0
    """Tokens generated there. During the stay: minus the number of tokens before it."""
    is_moved: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class RunningRequest:
    """A queued or running request."""

    transcript: Transcript
    gate: Gate
    reservation: Reservation | None = None
    """Its reservation in the queue until it starts; None if it needs none."""
    hold: int | None = None
    """Number of the pause during which it arrived; None if it arrived during none."""
    stage: RequestStage = RequestStage.NEW
    ending: Ending | None = None
    response: ResponseStream | None = None
    """Set while a worker streams the response."""
    worker: PooledWorker | None = None
    """The worker of `response`."""
    attempt: RequestId = field(default=RequestId(""))
    """The id under which that worker knows it."""
    ref: int = 0
    """Random id in the journal, unrelated to the request."""
    stays: list[RequestStay] = field(default_factory=list)
    """Its stays at workers, including the current one."""
    prompt_hash: int = field(init=False)
    """Hash of the prompt's tokens; the same in every process."""

    def __post_init__(self) -> None:
        self.prompt_hash = hash(self.transcript.prompt.token_ids)

    @property
    def waits_first(self) -> bool:
        """Whether it is queued ahead of its owner's other requests, since an earlier attempt has waited."""
        return self.stage is not RequestStage.NEW or self.transcript.prompt.attempt > 0

    @property
    def occupies(self) -> bool:
        """Whether a worker is still generating for it. Its client may read the rest after that."""
        return self.response is not None and not self.response.is_complete

    def can_leave(self, worker: PooledWorker) -> bool:
        """Return whether it runs at this worker and can be moved. A request that is leaving can be asked again."""
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
        """Record that its worker is asked to end it, so that another worker continues it."""
        if self.stage is RequestStage.RUNNING:
            self.stage = RequestStage.LEAVING

    def received(self, chunk: TokenChunk) -> TokenChunk:
        """Return a worker's chunk as one of the response, which does not end if the request only leaves the worker."""
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
        """Return its reservation in the queue. Idempotent."""
        if self.reservation is not None:
            self.reservation.use()
            self.reservation = None
