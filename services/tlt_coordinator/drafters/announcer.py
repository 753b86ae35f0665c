"""
Schedules the announcement of new drafters to engines. Pure: callers pass the time.

Every engine of the fleet pauses to load a drafter, so that frequent publications by several trainers would cost
rollouts more than they gain. A drafter that follows another too soon waits; only the newest is ever loaded. Once no
worker trains, none waits, since a rollout begins.
"""

from math import inf

from tlt_common.domain.fleet import DrafterWish


class Announcer:
    """Holds back the newest drafter until it is due."""

    def __init__(self) -> None:
        self._held: DrafterWish | None = None
        self._told_s = -inf

    @property
    def holds(self) -> bool:
        """Whether a drafter is waiting to be announced."""
        return self._held is not None

    def publish(self, wish: DrafterWish) -> None:
        """Record a new drafter, which replaces a waiting one."""
        self._held = wish

    def due(self, now_s: float, *, every_s: float, training: bool) -> DrafterWish | None:
        """
        Return the drafter to announce now, once; None if there is none.

        Args:
            now_s: Current time.
            every_s: Minimum seconds between two drafters.
            training: Whether a worker is lent, so that more drafters may follow.
        """
        if self._held is None or (training and now_s - self._told_s < every_s):
            return None
        wish, self._held, self._told_s = self._held, None, now_s
        return wish
