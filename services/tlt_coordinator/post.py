"""Who answers: the only coordinator there is, or, among replicas, the one of the replica that leads, while it does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tlt_common.domain.fleet import Fleet
from tlt_common.errors import UnavailableError
from tlt_common.telemetry import metrics
from tlt_coordinator.coordinator import Coordinator


class Post:
    """
    Taken by one coordinator at a time, or vacant.

    Args:
        leader: Names who leads, for callers that are sent away; empty: not known.
    """

    def __init__(self, leader: Callable[[], str] = lambda: "") -> None:
        self._leader = leader
        self._coordinator: Coordinator | None = None
        self._leads: Callable[[], bool] = lambda: False

    @property
    def coordinator(self) -> Coordinator:
        """
        The coordinator that may answer now.

        Raises:
            UnavailableError: There is none here.
        """
        # Asked each time, and not only by a timer: after a pause of the whole process calls come before timers.
        if self._coordinator is None or not self._leads():
            leader = self._leader()
            raise UnavailableError(f"this replica is not the leader; {leader or 'nobody'} was when last heard of")
        return self._coordinator

    def fleet(self) -> Fleet:
        """
        How the fleet is.

        Raises:
            UnavailableError: The coordinator is not here.
        """
        return self.coordinator.fleet()

    @contextmanager
    def taken_by(self, coordinator: Coordinator, *, leads: Callable[[], bool] = lambda: True) -> Iterator[None]:
        """Let a coordinator answer within, for as long as `leads` says so; all its streams end afterwards."""
        self._coordinator, self._leads = coordinator, leads
        metrics.COORDINATOR_LEADER.set(1)
        metrics.LEADER_TRANSITIONS.labels(to="leader").inc()
        try:
            yield
        finally:
            self._coordinator = None
            metrics.COORDINATOR_LEADER.set(0)
            metrics.LEADER_TRANSITIONS.labels(to="follower").inc()
            coordinator.end(UnavailableError("this coordinator does not lead any more"))
