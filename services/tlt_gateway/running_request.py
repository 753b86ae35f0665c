"""A queued or running request of a gateway."""

from dataclasses import dataclass, field

from tlt_common.domain.ids import RequestId
from tlt_common.domain.transcript import Transcript
from tlt_common.rpc.access import caller_name
from tlt_gateway.pooled_worker import PooledWorker
from tlt_gateway.response_stream import ResponseStream
from tlt_gateway.room import Room


@dataclass(slots=True, kw_only=True)
class RunningRequest:
    """A queued or running request."""

    transcript: Transcript
    room: Room
    response: ResponseStream | None = None
    """Set while a worker streams the response."""
    worker: PooledWorker | None = None
    """The worker of `response`."""
    attempt: RequestId = RequestId("")
    """The id by which that worker knows it."""
    began_s: float = 0.0
    """Loop time at which it was sent there."""
    leaving: bool = False
    """Whether that worker was asked to end it, so that another continues."""
    aborted: bool = False
    stale: bool = False
    """Whether it was ended because newer weights are served than it may continue with."""
    owner: str = field(default_factory=caller_name.get)
    """Name of the caller's token."""

    def can_leave(self, worker: PooledWorker) -> bool:
        """Return whether it runs at this worker and may be moved to another."""
        return self.worker is worker and not (self.aborted or self.leaving)

    def leave(self) -> None:
        """Mark it as asked to move to another worker."""
        if self.worker is not None and not self.leaving:
            self.leaving = True
            self.worker.leaving += 1

    def stay(self) -> None:
        """Take that back; also called once it has left."""
        if self.worker is not None and self.leaving:
            self.leaving = False
            self.worker.leaving -= 1
