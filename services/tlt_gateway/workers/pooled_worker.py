"""The gateway's view of one worker, and metrics of worker states."""

import asyncio
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from tlt_common.aio import Signal
from tlt_common.domain.arm.rounds import NO_ROUNDS
from tlt_common.domain.fleet import WatchReport, WorkerInfo
from tlt_common.domain.pause import Pause
from tlt_common.telemetry import metrics
from tlt_gateway.workers.demands import Demands
from tlt_gateway.workers.remote_worker import RemoteWorker
from tlt_gateway.workers.routing import Candidate


class PooledState(StrEnum):
    """Whether a worker accepts requests."""

    LOST = "lost"
    """The worker is unreachable, has not been reached yet, or does not respond."""
    BEHIND = "behind"
    """The worker responds, but serves another policy version: it must load the last update first."""
    LEAVING = "leaving"
    """The worker responds, but refuses new requests, since it is shutting down."""
    READY = "ready"
    """The worker accepts requests."""


class PooledWorker:
    """
    One worker. Only `WorkerPool` changes its state.

    Args:
        queued: Returns the number of requests queued at this gateway, for any worker.
        pause: Returns the pause of the fleet.
    """

    def __init__(
        self,
        address: str,
        remote: RemoteWorker,
        *,
        gateway_id: str,
        queued: Callable[[], int],
        pause: Callable[[], Pause] = Pause,
    ) -> None:
        self.address = address
        self.remote = remote
        self.state = PooledState.LOST
        self.info: WorkerInfo | None = None
        """The last information received from the worker; None before the first."""
        self.slots = 0
        """Concurrent requests the worker grants to this gateway."""
        self.kept: frozenset[str] = frozenset()
        """Keys of the responses that the worker keeps, since their gateway was lost."""
        self.rounds = NO_ROUNDS
        """What its last rounds cost, as reported."""
        self.serial = 0
        """Serial of the last demand the worker has answered."""
        self.reported = Signal()
        """Set at every report of the worker."""
        self.wanted = True
        """Whether the worker is listed. An unlisted one stays in use while it responds, since a restarted coordinator
        lists none at first."""
        self.assigned = 0
        """Requests of this gateway running on the worker."""
        self.losses = 0
        """Number of times it was lost: it may have been restarted since, with nothing cached."""
        self.usable_at_s = 0.0
        """Loop time from which a lost worker may be used again."""
        self.heard_at_s = 0.0
        """Time on the `ScheduleClock` of `silence.py` when a message of the worker was last seen."""
        self.admissible = asyncio.Event()
        """Set while the worker waits for `admit`."""
        self.demands = Demands(gateway_id, lambda: self._demand(queued()), pause)
        self._received = 0
        self._foreign = 0

    @property
    def name(self) -> str:
        """Name for messages: the worker's id, or its address before the first report."""
        return self.info.worker_id if self.info else self.address

    @property
    def answers(self) -> bool:
        """Whether the worker responds, so that an update can reach it."""
        return self.state is not PooledState.LOST

    @property
    def shared(self) -> bool:
        """Whether other gateways have a share of the worker."""
        return self.info is not None and self.slots < self.info.max_running

    def heard(self, report: WatchReport) -> None:
        """Apply a report of the worker."""
        self.info, self.slots, self.serial = report.info, report.slots, report.serial
        self.kept = frozenset(report.kept)
        self.rounds = report.rounds
        # Reports lag behind: without other gateways, the difference would be requests that have just ended.
        self._foreign = max(0, report.info.running - self.assigned) if self.shared else 0
        self.demands.granted(report.slots, shared=self.shared)
        self.reported.set()

    def silent_for_s(self, now_s: float) -> float:
        """Return the seconds without a message, given the time on its `ScheduleClock`. Call it at every tick."""
        if self._received != self.remote.received:
            self._received, self.heard_at_s = self.remote.received, now_s
        return now_s - self.heard_at_s

    def candidate(self) -> Candidate | None:
        """Return the worker as a routing candidate, or None unless it is ready and has its devices."""
        if self.info is None or self.state is not PooledState.READY or self.info.released:
            return None
        return Candidate(
            worker_id=self.info.worker_id,
            policy_version=self.info.policy_version,
            max_running=self.info.max_running,
            slots=self.slots,
            assigned=self.assigned,
            foreign=self._foreign,
            training=self.info.training,
            losses=self.losses,
        )

    def _demand(self, queued: int) -> int:
        wanted = self.assigned + queued
        return min(wanted, self.info.max_running) if self.info else wanted


class WorkerStates:
    """How many workers are in each state, also as metrics."""

    def __init__(self) -> None:
        self._counts = Counter[PooledState]()
        for state in PooledState:
            metrics.GATEWAY_WORKERS.labels(state=state).set(0)

    def of(self, state: PooledState) -> int:
        """Return the number of workers in a state."""
        return self._counts[state]

    def change(self, former: PooledState | None, state: PooledState | None) -> None:
        """Count a worker's change of state. None stands for a worker that is new or gone."""
        for one, change in ((former, -1), (state, 1)):
            if one is not None:
                self._counts[one] += change
                metrics.GATEWAY_WORKERS.labels(state=one).set(self._counts[one])
        metrics.GATEWAY_READY_WORKERS.set(self._counts[PooledState.READY])


def count_lost(evidence: str) -> None:
    """Count a lost worker by cause: a failed call (`call`), ended reports (`watch`) or `silence`."""
    metrics.GATEWAY_LOST_WORKERS.labels(evidence=evidence).inc()
