"""
Rows of a timeline: a lane shows one worker, a band several.

Both yield None after about STEP_CHANGES changes each, so that a caller can let other work run in between.
"""

from collections.abc import Callable, Iterator, Sequence

from tlt_common.timeline.band import Band
from tlt_common.timeline.document import BandRow, LaneRow
from tlt_common.timeline.track import Window, WorkerTrack

STEP_CHANGES = 2048
"""Changes, and tracks times TRACK_COST, between two chances for other work: a millisecond or two."""
TRACK_COST = 8
"""Changes that take as long as to find the place of a window in a track."""
ASKED = 16
"""Workers of a row by which the number of its changes is estimated."""
MAX_CHANGES = 2**18
"""Changes of all rows that are looked at one by one, a quarter of a second. Where bands have more, the states of their
workers are read at as many points instead."""


def lanes(tracks: Sequence[str], track_of: Callable[[str], WorkerTrack], window: Window) -> Iterator[LaneRow | None]:
    """
    Yield the rows of some workers: in each column, the state that lasts longest.

    Args:
        tracks: The workers.
        track_of: Returns a worker's track.
        window: The displayed window.
    """
    for name in tracks:
        track = track_of(name)
        yield LaneRow(label=name, devices=track.devices, runs=runs_of(track, window))
        yield None


def bands(
    tracks: Sequence[str],
    track_of: Callable[[str], WorkerTrack],
    window: Window,
    rows: int,
    *,
    max_changes: int = MAX_CHANGES,
) -> Iterator[BandRow | None]:
    """
    Yield this many rows, each of as many workers: in each column, the shares of their time by state, in percent.

    Args:
        tracks: The workers, no fewer than rows.
        track_of: Returns a worker's track.
        window: The displayed window.
        rows: Number of rows.
        max_changes: See MAX_CHANGES; divided equally among the rows.
    """
    for row in range(rows):
        names = tracks[len(tracks) * row // rows : len(tracks) * (row + 1) // rows]
        some = names[:: -(-len(names) // ASKED)]
        changes = sum(track_of(name).changes_in(window) for name in some) * len(names) // len(some)
        is_exact, seen = changes <= max_changes // rows, TRACK_COST * len(some)
        band = Band(window, len(names), points=None if is_exact else max(1, max_changes // rows // window.columns))
        for name in names:
            seen += TRACK_COST + band.add(track_of(name))
            if seen >= STEP_CHANGES:
                seen = 0
                yield None
        label = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
        yield BandRow(label=label, workers=len(names), shares=band.shares(), exact=is_exact)
        yield None


def runs_of(track: WorkerTrack, window: Window) -> list[tuple[int, int]]:
    """Return a worker's states as runs of columns: in each column the longest state, or the first of equals."""
    runs: list[tuple[int, int]] = []
    held: dict[int, float] = {}
    column = 0
    for state, begin, end in track.spans(window):
        following = column + 1
        if held:
            held[state] = held.get(state, 0.0) + min(end, following) - begin
            if end < following:
                continue
            _append(runs, _longest(held), 1)
            held.clear()
            column = following
        if (whole := int(end) - column) > 0:
            _append(runs, state, whole)
            column += whole
        if end > column:
            held[state] = end - column
    return runs


def _append(runs: list[tuple[int, int]], state: int, columns: int) -> None:
    if runs and runs[-1][0] == state:
        runs[-1] = (state, runs[-1][1] + columns)
    else:
        runs.append((state, columns))


def _longest(held: dict[int, float]) -> int:
    return max(held, key=held.__getitem__) if len(held) > 1 else next(iter(held))
