"""
What the rounds of an arm cost those of others.

Found drafts leave the drafter behind, and the next round that drafts with it catches up first. The arm that found them
owes that time: otherwise found drafts look cheap and the drafter's dear, the more so the more often they alternate.
"""

from tlt_common.bandit.window import MedianWindow


class Owed:
    """What an arm owes at one bucket. Robust to a pause of the process, as the median of rounds' times is."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._rounds = 0
        self._share = 0.0
        """Share of the last rounds that another arm's round paid for."""
        self._paid_s = MedianWindow(window)

    def ran(self) -> None:
        """Count a round of the arm."""
        self._rounds = min(self._rounds + 1, self._window)
        self._share *= 1.0 - 1.0 / self._rounds

    def paid(self, elapsed_s: float) -> None:
        """Count what another arm's round took longer because of the one before."""
        self._share = min(1.0, self._share + 1.0 / max(1, self._rounds))
        self._paid_s.add(elapsed_s)

    @property
    def mean_s(self) -> float:
        """Seconds owed per round."""
        return self._share * max(0.0, self._paid_s.median()) if len(self._paid_s) else 0.0
