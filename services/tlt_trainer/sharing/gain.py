"""What a trainer gains per second of training, from its last evaluations. Pure."""

from collections import deque
from typing import NamedTuple

KEPT = 5
"""Evaluations that are looked at."""
LEAST = 3


class _Point(NamedTuple):
    trained_s: float
    accept_length: float


class Gain:
    """The held-out scores of the own weights over the seconds of training."""

    def __init__(self) -> None:
        self._points: deque[_Point] = deque(maxlen=KEPT)
        self.per_s: float | None = None
        """Tokens per round gained per second, as last known; None: never."""

    def begin(self) -> None:
        """Begin a new line: other weights are trained, or scored on other responses."""
        self._points.clear()

    def note(self, trained_s: float, accept_length: float) -> None:
        """Note a score, in tokens per round, after so many seconds of training."""
        self._points.append(_Point(trained_s, accept_length))
        if len(self._points) >= LEAST and (slope := self._slope()) is not None:
            self.per_s = slope

    def _slope(self) -> float | None:
        """Return the slope of a least-squares line; None: all scores are of one moment."""
        count = len(self._points)
        mean_s = sum(point.trained_s for point in self._points) / count
        mean = sum(point.accept_length for point in self._points) / count
        spread = sum((point.trained_s - mean_s) ** 2 for point in self._points)
        if spread <= 0.0:
            return None
        return sum((point.trained_s - mean_s) * (point.accept_length - mean) for point in self._points) / spread
