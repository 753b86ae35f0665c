"""The coordinator that serves calls: the only one or, among replicas, the leader's for as long as it leads."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tlt_common.errors import UnavailableError
from tlt_common.telemetry import metrics
from tlt_coordinator.coordinator import Coordinator


class ActiveCoordinator:
    """
    Holds at most one coordinator at a time.

    Args:
        leader: Returns the leader's name for error messages; empty: unknown.
    """

    def __init__(self, leader: Callable[[], str] = lambda: "") -> None:
        self._leader = leader
        self._coordinator: Coordinator | None = None
        self._leads: Callable[[], bool] = lambda: False

    @property
    def coordinator(self) -> Coordinator:
        """
        The coordinator that may serve calls now.

        Raises:
            UnavailableError: This process does not lead.
        """
        # Checked on every call, not only by a timer: after the whole process was paused, calls run before timers.
        if self._coordinator is None or not self._leads():
            leader = self._leader()
            raise UnavailableError(f"this replica is not the leader; last known leader: {leader or 'none'}")
        return self._coordinator

    @contextmanager
    def activate(self, coordinator: Coordinator, *, leads: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Serve calls with `coordinator` inside the block while `leads` returns True; end all its streams on exit."""
        self._coordinator, self._leads = coordinator, leads
        metrics.COORDINATOR_LEADER.set(1)
        metrics.LEADER_TRANSITIONS.labels(to="leader").inc()
        try:
            yield
        finally:
            self._coordinator = None
            metrics.COORDINATOR_LEADER.set(0)
            metrics.LEADER_TRANSITIONS.labels(to="follower").inc()
            coordinator.end(UnavailableError("this coordinator is no longer the leader"))
