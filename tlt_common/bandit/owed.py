"""
Costs that rounds of one arm impose on rounds of others.

After rounds with found drafts, the drafter must catch up before it drafts again. The arm that found the drafts owes
that time: otherwise its rounds look cheap and the drafter's expensive, the more so the more often they alternate.
"""

from tlt_common.bandit.window import MedianWindow


class Owed:
    """Time that an arm owes at one bucket. As robust to a pause of the process as the median of round times."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._rounds = 0
        self._share = 0.0
        """Share of the last rounds that another arm's round paid for."""
        self._paid_s = MedianWindow(window)

    def ran(self) -> None:
        """Record a round of the arm."""
        self._rounds = min(self._rounds + 1, self._window)
        self._share *= 1.0 - 1.0 / self._rounds

    def paid(self, elapsed_s: float) -> None:
        """Record the extra time of another arm's round that was caused by the round before it."""
        self._share = min(1.0, self._share + 1.0 / max(1, self._rounds))
        self._paid_s.add(elapsed_s)

    @property
    def mean_s(self) -> float:
        """Seconds owed per round."""
        return self._share * max(0.0, self._paid_s.median()) if len(self._paid_s) else 0.0
