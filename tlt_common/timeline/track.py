"""The states of one worker over time, and the columns that display them."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

UNKNOWN = -1
"""Stands for a state where none is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A time span divided into equal columns. Times are Unix seconds."""

    from_s: float
    to_s: float
    columns: int

    @property
    def column_s(self) -> float:
        """Seconds per column."""
        return (self.to_s - self.from_s) / self.columns

    def column_of(self, at_s: float) -> float:
        """Return the position of a time in columns; below 0 or above `columns` if it is outside."""
        return (at_s - self.from_s) * (self.columns / (self.to_s - self.from_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerTrack:
    """
    The states of one worker over time.

    The sequences may still be growing: they are read only while a function of this package runs, never between two
    yielded items.
    """

    label: str
    devices: int
    times_s: Sequence[float]
    """Times of its changes of state in Unix seconds, ascending."""
    states: Sequence[int]
    """State after each change, as index into `STATES`."""
    until_s: float
    """Time up to which the track is known."""

    def changes_in(self, window: Window) -> int:
        """Return the number of changes within a window."""
        first = bisect_right(self.times_s, window.from_s)
        return max(0, bisect_left(self.times_s, min(window.to_s, self.until_s)) - first)

    def only_state(self, window: Window) -> int | None:
        """Return the state that holds throughout a window, or None."""
        place = bisect_right(self.times_s, window.from_s)
        if not place or self.until_s < window.to_s:
            return None
        if place < len(self.times_s) and self.times_s[place] < window.to_s:
            return None
        return self.states[place - 1]

    def spans(self, window: Window) -> Iterator[tuple[int, float, float]]:
        """Yield states with their start and end in columns, in order. They fill the window, with UNKNOWN in gaps."""
        first = bisect_right(self.times_s, window.from_s)
        last = bisect_left(self.times_s, min(window.to_s, self.until_s))
        state, begin = (self.states[first - 1] if first else UNKNOWN), 0.0
        for at_s, following in zip(self.times_s[first:last], self.states[first:last], strict=True):
            if (at := window.column_of(at_s)) > begin:
                yield state, begin, at
                begin = at
            state = following
        end = max(begin, min(window.column_of(self.until_s), float(window.columns)))
        if end > begin:
            yield state, begin, end
        if end < window.columns:
            yield UNKNOWN, end, float(window.columns)

    def states_at(self, times_s: Sequence[float]) -> list[int]:
        """Return the states at given times."""
        known = self.states
        return [
            known[place - 1] if (place := bisect_right(self.times_s, at_s)) and at_s <= self.until_s else UNKNOWN
            for at_s in times_s
        ]
