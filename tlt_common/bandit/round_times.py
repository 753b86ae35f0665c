"""Round time of an arm at one bucket."""

from typing import Final

from tlt_common.bandit.pace import differs
from tlt_common.bandit.reward import TRIAL_ROUNDS
from tlt_common.bandit.window import MedianWindow

WINDOW: Final = 16
"""Rounds remembered, at most. Fewer than of what they accept, since a round's time varies by a tenth of itself only."""


class RoundTimes:
    """Median of recent times, robust to a pause. `TRIAL_ROUNDS` contradicting times in a row replace it."""

    def __init__(self, window: int) -> None:
        self._capacity = min(window, WINDOW)
        self._window = MedianWindow(self._capacity)
        self._contradicting: list[float] = []

    @property
    def seconds(self) -> float | None:
        """The median time; None if it has not been measured often enough."""
        return self._window.median() if len(self._window) >= TRIAL_ROUNDS else None

    def add(self, seconds: float) -> None:
        """Add the time of a round."""
        self._window.add(seconds)
        known = self.seconds
        if known is None or not differs(seconds, known):
            self._contradicting.clear()
            return
        if self._contradicting and (seconds > known) != (self._contradicting[-1] > known):
            self._contradicting.clear()
        self._contradicting.append(seconds)
        if len(self._contradicting) == TRIAL_ROUNDS:
            self._window = MedianWindow(self._capacity)
            for each in self._contradicting:
                self._window.add(each)
            self._contradicting.clear()
