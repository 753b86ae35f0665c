"""Routing: chooses the worker for the next request. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from types import MappingProxyType
from typing import TypeAlias

from tlt_common.domain.ids import PolicyVersion, WorkerId
from tlt_common.domain.prompt import Prompt

SPILL_LOAD = 0.25
"""Share of a worker's slots to fill before requests are sent to workers that are training. Runs are as fast with 0 and
with 0.5 (docs/results/sweeps.md)."""
AFFINITY_TOKENS = 256
"""Cached tokens for which a worker may run one request more than the least loaded one. Prefilling so
many takes an H100 about as long as one round of decoding (`VERIFY_TOKENS`); not measured on a GPU."""
SPILLED = 2.0**20
"""Above any load: workers that get requests only if no other may rank by it, and then by load."""
OUTDATED = 4
"""Number of heap entries per worker above which the heap is rebuilt."""
NOTHING: Mapping[WorkerId, int] = MappingProxyType({})


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
    """Requests of other gateways, as last reported. They count towards `load` only: `slots` leaves slots for them."""
    training: bool = False
    losses: int = 0
    """Number of times it was lost. Its earlier cache may be gone."""

    @property
    def running(self) -> int:
        """Requests of all gateways."""
        return self.assigned + self.foreign

    @property
    def free(self) -> int:
        """Requests that would run at once."""
        return max(0, self.slots - self.assigned)

    @property
    def has_free_slot(self) -> bool:
        """Whether one more request would run immediately instead of waiting in the engine."""
        return self.assigned < self.slots

    @property
    def load(self) -> float:
        """Share of slots in use including one more request; requests of other gateways may raise it above 1."""
        return (self.assigned + self.foreign + 1) / self.max_running


def serves(version: PolicyVersion, prompt: Prompt) -> bool:
    """Whether a fleet at `version` may answer a prompt, which may require a version."""
    required = prompt.policy_version
    return required is None or required == version or (prompt.is_continued and required < version)


class RoutingTable:
    """
    The workers that accept requests, in the order in which they get the next one.

    A choice takes as long in a fleet of ten thousand as in one of eight: the order is kept, and each change of a worker
    moves that worker alone.

    Workers that train their drafter get no request while another worker stays at or below `spill_load` with it: the few
    long responses of the tail stay on few devices while the others continue training. Above `spill_load`, requests are
    spread evenly over all workers; a worker preempts its training when the request arrives.

    Args:
        spill_load: Share of slots in use, 0 to 1.
    """

    def __init__(self, *, spill_load: float) -> None:
        self._spill_load = spill_load
        self._pack = 0
        self._workers: dict[WorkerId, Candidate] = {}
        self._orders: dict[PolicyVersion, _Orders] = {}
        self._free = 0

    def __len__(self) -> int:
        """Return the number of workers that accept requests."""
        return len(self._workers)

    @property
    def free(self) -> int:
        """Number of requests that would run at once."""
        return self._free

    @property
    def versions(self) -> frozenset[PolicyVersion]:
        """The policy versions that workers serve."""
        return frozenset(self._orders)

    @property
    def pack(self) -> int:
        """
        Number of requests that a worker gets before the next worker does, so that whole workers are left for training.

        0 spreads requests evenly.
        """
        return self._pack

    @pack.setter
    def pack(self, requests: int) -> None:
        if requests != self._pack:
            self._pack = requests
            for one in self._workers.values():
                self._sort(one)

    def get(self, worker_id: WorkerId) -> Candidate | None:
        """Return a worker; None if it accepts no requests."""
        return self._workers.get(worker_id)

    def put(self, one: Candidate) -> None:
        """Add or update a worker."""
        former = self._workers.get(one.worker_id)
        if former == one:
            return
        if former is not None and former.policy_version != one.policy_version:
            self.drop(one.worker_id)
            former = None
        self._workers[one.worker_id] = one
        self._free += one.free - (former.free if former else 0)
        self._sort(one)

    def drop(self, worker_id: WorkerId) -> None:
        """Remove a worker. Does nothing if it is unknown."""
        if (former := self._workers.pop(worker_id, None)) is not None:
            self._free -= former.free
            orders = self._orders[former.policy_version]
            orders.drop(worker_id)
            if not orders.workers:
                del self._orders[former.policy_version]

    def choose(
        self,
        *,
        version: PolicyVersion | None = None,
        cached: Mapping[WorkerId, int] = NOTHING,
        affinity_tokens: int = 1,
    ) -> Candidate | None:
        """
        Return a worker with a free slot that has the prompt cached, else the least loaded one, or None if all are full.

        Cached tokens save prefill, but each additional request slows down the others on the worker. A worker may
        therefore run one more request than the least loaded one per `affinity_tokens` that it has cached. Cached tokens
        alone do not take a worker from training.

        Args:
            version: Required policy version; None accepts any.
            cached: Tokens of the prompt that workers have cached.
            affinity_tokens: Cached tokens that outweigh one running request.
        """
        least = self._first(version)
        if least is None or not cached:
            return least
        least_load = least.load
        holders = (one for worker_id in cached if (one := self._workers.get(worker_id)) is not None)
        found = [
            one
            for one in holders
            if one.has_free_slot
            and version in {None, one.policy_version}
            and one.training <= least.training
            and (one.load - least_load) * one.max_running * affinity_tokens <= cached[one.worker_id]
        ]
        return max(found, key=lambda c: (cached[c.worker_id], -c.load, c.worker_id), default=least)

    def _first(self, version: PolicyVersion | None) -> Candidate | None:
        if version is None:
            among = list(self._orders.values())
        else:
            among = [self._orders[version]] if version in self._orders else []
        begun = [key for orders in among if (key := orders.begun.first()) is not None]
        key = min(begun or [key for orders in among if (key := orders.least.first()) is not None], default=None)
        return None if key is None else self._workers[key[-1]]

    def _sort(self, one: Candidate) -> None:
        orders = self._orders.setdefault(one.policy_version, _Orders())
        orders.workers.add(one.worker_id)
        spilled = one.training or one.load > self._spill_load
        rank = one.load + SPILLED if spilled else one.load
        orders.least.put((rank, one.training, one.worker_id) if one.has_free_slot else None, one.worker_id)
        is_begun = one.has_free_slot and 0 < one.running < self._pack and not one.training
        orders.begun.put((-one.running, False, one.worker_id) if is_begun else None, one.worker_id)


_Key: TypeAlias = tuple[float, bool, WorkerId]


class _Order:
    """Workers ordered by a key, of which only the least is needed: a heap whose outdated entries are skipped."""

    def __init__(self) -> None:
        self._keys: dict[WorkerId, _Key] = {}
        self._heap: list[_Key] = []

    def put(self, key: _Key | None, worker_id: WorkerId) -> None:
        """Set a worker's key; None removes it."""
        if key == self._keys.get(worker_id):
            return
        if key is None:
            del self._keys[worker_id]
            return
        self._keys[worker_id] = key
        heappush(self._heap, key)
        if len(self._heap) > OUTDATED * (len(self._keys) + 1):
            self._heap = list(self._keys.values())
            heapify(self._heap)

    def first(self) -> _Key | None:
        """Return the least key; None if there is none."""
        heap, keys = self._heap, self._keys
        while heap and keys.get(heap[0][-1]) != heap[0]:
            heappop(heap)
        return heap[0] if heap else None


class _Orders:
    """The workers of one policy version."""

    def __init__(self) -> None:
        self.workers = set[WorkerId]()
        self.least = _Order()
        """With a free slot, in the order in which they get requests."""
        self.begun = _Order()
        """Workers that get requests first, to be filled up: the fullest one first."""

    def drop(self, worker_id: WorkerId) -> None:
        self.workers.discard(worker_id)
        self.least.put(None, worker_id)
        self.begun.put(None, worker_id)
