"""What a gateway knows of one worker."""

from enum import StrEnum

from tlt_common.domain.fleet import WorkerInfo, WorkerState, WorkerStatus
from tlt_gateway.remote import RemoteWorker
from tlt_gateway.routing import Candidate


class LinkState(StrEnum):
    """Whether a worker can be given requests."""

    LOST = "lost"
    """It does not answer, or has not been asked yet."""
    BEHIND = "behind"
    """It answers, and does not serve the version that is served: it gets the last update first."""
    LEAVING = "leaving"
    """It answers and takes no new requests: it is about to end."""
    READY = "ready"
    """It takes requests."""


class Link:
    """One worker. Only the fleet changes its state."""

    def __init__(self, address: str, remote: RemoteWorker) -> None:
        self.address = address
        self.remote = remote
        self.state = LinkState.LOST
        self.info: WorkerInfo | None = None
        """As it said last."""
        self.wanted = True
        """Still listed. One that is not stays in use while it answers: the coordinator may have forgotten it."""
        self.assigned = 0
        """Requests of this gateway that run there."""
        self._foreign = 0
        self._training = False

    @property
    def name(self) -> str:
        """For messages: the worker's id, or its address before it told one."""
        return self.info.worker_id if self.info else self.address

    @property
    def answers(self) -> bool:
        """Whether an update can reach it."""
        return self.state is not LinkState.LOST

    def reported(self, status: WorkerStatus) -> None:
        """Take in what the coordinator says of it."""
        self._training = status.state is WorkerState.TRAINING
        self._foreign = max(0, status.running - self.assigned)

    def candidate(self) -> Candidate | None:
        """How routing sees it; None unless it is ready."""
        if self.info is None or self.state is not LinkState.READY:
            return None
        return Candidate(
            worker_id=self.info.worker_id,
            policy_version=self.info.policy_version,
            max_running=self.info.max_running,
            assigned=self.assigned,
            foreign=self._foreign,
            training=self._training,
        )
