"""Budget of exploration."""

EXPLORATION_SHARE = 0.01
"""
Maximum share of the rounds' time that may be lost to arms other than the best.

Without a limit, one choice in twenty explores, at whatever price: with eight requests on a CPU and a drafter that is
hardly ever right, four rounds of a chain of seven lose the time of six rounds of off, and engines decoded 5 % slower
than without a drafter (`tlt bench engine --part batches` measures it).
"""

SAVES_S = 120.0
"""Seconds of rounds of which the share is saved up at most, or else what the dearest exploration so far would cost:
hours without any must not pay for minutes with too many."""


class ExplorationBudget:
    """
    Limits the time lost by rounds of other arms than the best to a share of all rounds' time. Pure.

    An exploration that begins when its expected cost is affordable may cost more, such as when the drafter first
    catches up with what it skipped. The next one then waits until the difference is saved. The loss over any rounds is
    therefore at most the share of their time, plus the borrowed time, plus the excess cost of one exploration.
    """

    __slots__ = ("_dearest_s", "_saved_s", "_share")

    def __init__(self, share: float = EXPLORATION_SHARE) -> None:
        self._share = share
        self._saved_s = 0.0
        self._dearest_s = share * SAVES_S

    def ran(self, elapsed_s: float, lost_s: float = 0.0) -> None:
        """Record a round and its excess time over the best arm for as many tokens; negative if it was shorter."""
        self._saved_s = min(self._dearest_s, self._saved_s + self._share * elapsed_s - lost_s)

    def affords(self, cost_s: float, *, lent_s: float = 0.0) -> bool:
        """
        Return whether an exploration with this expected loss may start. One without loss always may.

        Args:
            cost_s: Expected loss.
            lent_s: Seconds that it may borrow.
        """
        self._dearest_s = max(self._dearest_s, cost_s)
        return cost_s <= 0.0 or cost_s <= self._saved_s + lent_s
