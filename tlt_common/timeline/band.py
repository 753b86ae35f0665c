"""Time of several workers by state and column."""

from itertools import accumulate

from tlt_common.timeline.track import UNKNOWN, Window, WorkerTrack


class Band:
    """
    Sums the time of workers.

    Args:
        window: The displayed window.
        workers: Number of workers to be added.
        points: Number of samples per column, taken from the workers in turn; None counts all changes exactly.
    """

    def __init__(self, window: Window, workers: int, *, points: int | None = None) -> None:
        self._window = window
        self._workers = workers
        self._points = points
        self._added = 0
        self._partial: dict[int, list[float]] = {}
        """By state: time in columns, without that of workers that were in the state at the column's begin."""
        self._steps: dict[int, list[int]] = {}
        """By state: how many more workers are in it at a column's begin than at the last one's."""

    def add(self, track: WorkerTrack) -> int:
        """Add a worker; return the number of changes or samples read."""
        self._added += 1
        return self._add_changes(track) if self._points is None else self._add_points(track, self._points)

    def columns(self) -> dict[int, list[float]]:
        """Return the average number of workers in each state by column. Unknown time is in no state."""
        if self._points is not None:
            part = self._workers / self._points
            return {state: [part * count for count in counts] for state, counts in self._partial.items()}
        return {
            state: [inside + whole for inside, whole in zip(partial, accumulate(self._steps[state]), strict=True)][
                : self._window.columns
            ]
            for state, partial in self._partial.items()
        }

    def shares(self) -> dict[int, list[int]]:
        """Return each state's share of each column, in percent, rounded."""
        percent = 100.0 / self._workers
        shares = {state: [round(percent * each) for each in columns] for state, columns in self.columns().items()}
        return {state: columns for state, columns in sorted(shares.items()) if any(columns)}

    def _add_changes(self, track: WorkerTrack) -> int:
        """Count each span at its ends: its share of the first and last column, and the steps in between."""
        if (only := track.only_state(self._window)) is not None:
            self._lists(only)[1][0] += 1
            return 1
        count = 0
        for state, begin, end in track.spans(self._window):
            count += 1
            if state == UNKNOWN:
                continue
            partial, steps = self._lists(state)
            first, last = int(begin), int(end)
            partial[first] += first + 1 - begin
            steps[first + 1] += 1
            partial[last] -= last + 1 - end
            steps[last + 1] -= 1
        return count

    def _add_points(self, track: WorkerTrack, points: int) -> int:
        window, first = self._window, self._added - 1
        places = range(first, window.columns * points, self._workers)
        step_s = window.column_s / points
        times_s = [window.from_s + (place + 0.5) * step_s for place in places]
        for place, state in zip(places, track.states_at(times_s), strict=True):
            if state != UNKNOWN:
                self._lists(state)[0][place // points] += 1.0
        return len(places)

    def _lists(self, state: int) -> tuple[list[float], list[int]]:
        found = self._partial.get(state)
        if found is None:
            # Two more than there are columns: what ends with the last one counts its end behind it.
            columns = self._window.columns + (2 if self._points is None else 0)
            found = self._partial[state] = [0.0] * columns
            self._steps[state] = [0] * columns
        return found, self._steps[state]
