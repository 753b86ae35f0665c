"""
When engines are told of a new drafter. Pure: times come from the caller.

Every engine of the fleet pauses to load one, so several trainers that publish often would cost rollouts more than they
bring. A drafter that comes too soon after another one waits; only the newest is ever loaded. As soon as nothing trains
any more none waits: a rollout begins.
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
        """Whether a drafter waits that the fleet was not told of."""
        return self._held is not None

    def publish(self, wish: DrafterWish) -> None:
        """Take note of a new drafter; it replaces one that waits."""
        self._held = wish

    def due(self, now_s: float, *, every_s: float, training: bool) -> DrafterWish | None:
        """
        Return the drafter to tell the fleet of now, once; None: there is none.

        Args:
            now_s: Current time.
            every_s: Least seconds between two drafters.
            training: Whether a worker is lent, so that more is to come.
        """
        if self._held is None or (training and now_s - self._told_s < every_s):
            return None
        wish, self._held, self._told_s = self._held, None, now_s
        return wish
