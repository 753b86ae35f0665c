"""Routing: choose the worker for the next request. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.rollout import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A worker that accepts requests."""

    worker_id: WorkerId
    policy_version: PolicyVersion
    max_running: int
    slots: int
    """Requests this gateway may run on the worker: its share of `max_running`."""
    assigned: int
    """Requests of this gateway running on the worker."""
    foreign: int = 0
    """Requests of other gateways, as last reported. They count towards `load` only: `slots` leaves room for them."""
    training: bool = False

    @property
    def free(self) -> int:
        """Requests that would run at once."""
        return max(0, self.slots - self.assigned)

    @property
    def has_room(self) -> bool:
        """Whether one more request would run at once instead of waiting in the engine."""
        return self.assigned < self.slots

    @property
    def load(self) -> float:
        """Share of slots in use including one more request; requests of other gateways may raise it above 1."""
        return (self.assigned + self.foreign + 1) / self.max_running


def serves(version: PolicyVersion, prompt: Prompt) -> bool:
    """Whether a fleet at `version` may respond to a prompt, which may require a version."""
    required = prompt.policy_version
    return required is None or required == version or (prompt.is_continued and required < version)


def choose(
    candidates: Iterable[Candidate], *, version: PolicyVersion | None = None, spill_load: float
) -> Candidate | None:
    """
    Return the least loaded worker with room, or None if there is none.

    Workers that train their drafter get no request while another worker stays at or below `spill_load` with it: the few
    long responses of the tail stay on few devices while the others continue training. Above `spill_load`, requests are
    spread evenly over all workers; a worker preempts its training when the request arrives.

    Args:
        candidates: Workers that accept requests.
        version: Required policy version; None accepts any.
        spill_load: Share of slots in use, 0 to 1.
    """
    suitable = [c for c in candidates if c.has_room and (version is None or c.policy_version == version)]
    if serving_only := [c for c in suitable if not c.training and c.load <= spill_load]:
        suitable = serving_only
    return min(suitable, key=lambda c: (c.load, c.training, c.worker_id), default=None)
