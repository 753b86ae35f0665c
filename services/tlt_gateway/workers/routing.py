"""Routing: choose the worker for the next request. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt

SPILLED = 2.0**20
"""Above any load: workers that get requests only if no other may rank by it, and then by load."""
NOTHING: Mapping[WorkerId, int] = MappingProxyType({})


@dataclass(slots=True, kw_only=True)
class Candidate:
    """
    A worker that accepts requests. Not frozen: a gateway makes one of each worker for every request, and frozen ones
    take three times as long to make.
    """

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
    losses: int = 0
    """Number of times it was lost; what it had cached before may be gone."""

    @property
    def running(self) -> int:
        """Requests of all gateways."""
        return self.assigned + self.foreign

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
    candidates: Iterable[Candidate],
    *,
    version: PolicyVersion | None = None,
    spill_load: float,
    cached: Mapping[WorkerId, int] = NOTHING,
    affinity_tokens: int = 1,
    pack: int = 0,
) -> Candidate | None:
    """
    Return a worker with room that has the prompt cached, else the least loaded one, or None if there is none.

    Workers that train their drafter get no request while another worker stays at or below `spill_load` with it: the few
    long responses of the tail stay on few devices while the others continue training. Above `spill_load`, requests are
    spread evenly over all workers; a worker preempts its training when the request arrives.

    Up to `pack` requests, one worker gets all before the next one does, so that whole workers are left to training.

    What is cached saves prefill, while every further request slows down those that run beside it: a worker may run one
    request more than the least loaded one per `affinity_tokens` that it has cached. For what it has cached, a worker is
    not taken from training.

    Args:
        candidates: Workers that accept requests.
        version: Required policy version; None accepts any.
        spill_load: Share of slots in use, 0 to 1.
        cached: Tokens of the prompt that workers have cached.
        affinity_tokens: Cached tokens that outweigh one running request.
        pack: Requests that a worker gets before the next one does; 0 spreads them evenly.
    """
    least: Candidate | None = None
    fullest: Candidate | None = None
    least_rank = inf
    holders = list[Candidate]()
    for one in candidates:  # in one pass: it is made for every request, over all workers
        assigned, training = one.assigned, one.training
        if assigned >= one.slots or (version is not None and one.policy_version != version):
            continue
        running = assigned + one.foreign
        rank = (running + 1) / one.max_running
        if training or rank > spill_load:
            rank += SPILLED
        if rank <= least_rank and (
            least is None or rank < least_rank or (training, one.worker_id) < (least.training, least.worker_id)
        ):
            least, least_rank = one, rank
        if (
            0 < running < pack
            and not training
            and (fullest is None or (running, one.worker_id) > (fullest.running, fullest.worker_id))
        ):
            fullest = one
        if cached and one.worker_id in cached:
            holders.append(one)
    least = fullest or least
    if least is None or not holders:
        return least
    least_load = least.load
    found = [
        one
        for one in holders
        if one.training <= least.training
        and (one.load - least_load) * one.max_running * affinity_tokens <= cached[one.worker_id]
    ]
    return max(found, key=lambda c: (cached[c.worker_id], -c.load, c.worker_id), default=least)
