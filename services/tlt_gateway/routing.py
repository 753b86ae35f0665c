"""Which worker gets the next request. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A worker that can take requests."""

    worker_id: WorkerId
    policy_version: PolicyVersion
    max_running: int
    assigned: int
    """Requests this gateway runs there."""
    foreign: int = 0
    """Requests of others, as last reported. They tilt the choice but close no worker: reports are late."""
    training: bool = False

    @property
    def has_room(self) -> bool:
        """One more request would run, not wait in the engine."""
        return self.assigned < self.max_running

    @property
    def load(self) -> float:
        """Share of its slots in use if it gets one more request; above 1 with requests of others."""
        return (self.assigned + self.foreign + 1) / self.max_running


def choose(
    candidates: Iterable[Candidate], *, version: PolicyVersion | None = None, spill_load: float
) -> Candidate | None:
    """
    Choose the least loaded worker with room; None if there is none.

    Workers that train their drafter are left alone while another stays at or below `spill_load` with the request:
    a few long responses, the tail, keep to few devices and the others go on training. Above it a batch has come and
    is spread evenly over all; a worker preempts its training itself when the request arrives.

    Args:
        candidates: Workers that can take requests.
        version: Only workers that serve it; None takes any.
        spill_load: Share of slots in use.
    """
    suitable = [c for c in candidates if c.has_room and (version is None or c.policy_version == version)]
    if restful := [c for c in suitable if not c.training and c.load <= spill_load]:
        suitable = restful
    return min(suitable, key=lambda c: (c.load, c.training, c.worker_id), default=None)
