"""A sliding window of values with a fast median."""

from bisect import bisect_left, insort
from collections import deque


class MedianWindow:
    """The last values in order of arrival, and also sorted, so that the median is a look-up."""

    __slots__ = ("_arrival", "_capacity", "_sorted")

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._arrival: deque[float] = deque()
        self._sorted: list[float] = []

    def __len__(self) -> int:
        return len(self._sorted)

    def add(self, value: float) -> None:
        """Add a value; drop the oldest one if the window is full."""
        if len(self._arrival) == self._capacity:
            del self._sorted[bisect_left(self._sorted, self._arrival.popleft())]
        self._arrival.append(value)
        insort(self._sorted, value)

    def median(self) -> float:
        """Return the median of the window, which must not be empty."""
        middle, odd = divmod(len(self._sorted), 2)
        return self._sorted[middle] if odd else (self._sorted[middle - 1] + self._sorted[middle]) / 2
