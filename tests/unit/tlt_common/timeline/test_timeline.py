"""Timelines, down-sampled, compared with the exact ones."""

from array import array
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState
from tlt_common.timeline import (
    MAX_COLUMNS,
    STATES,
    UNKNOWN,
    BandRow,
    LaneRow,
    TimelineDocument,
    TimelineMark,
    Window,
    WorkerTrack,
    bands,
    document_of,
    head_of,
    lanes,
)
from tlt_common.timeline.band import Band
from tlt_common.timeline.rows import STEP_CHANGES, TRACK_COST, runs_of

ROLLOUT, TRAINING, IDLE = (STATES.index(WorkerState(name)) for name in ("rollout", "training", "idle"))


def track(*changes: tuple[float, int], until_s: float = 1e9, label: str = "w", devices: int = 1) -> WorkerTrack:
    return WorkerTrack(
        label=label,
        devices=devices,
        times_s=array("d", [at_s for at_s, _ in changes]),
        states=bytearray(state for _, state in changes),
        until_s=until_s,
    )


@st.composite
def tracks(draw: st.DrawFn) -> WorkerTrack:
    times = sorted(draw(st.lists(st.integers(-50, 250).map(lambda tenths: tenths / 2), max_size=30)))
    states = draw(st.lists(st.integers(0, len(STATES) - 1), min_size=len(times), max_size=len(times)))
    return track(*zip(times, states, strict=True), until_s=draw(st.sampled_from([-10.0, 40.0, 99.5, 1e9])))


windows = st.builds(
    Window, from_s=st.sampled_from([0.0, 12.5, 90.0]), to_s=st.sampled_from([100.0, 104.3]), columns=st.integers(1, 90)
)


def exact_s(of: WorkerTrack, from_s: float, to_s: float) -> dict[int, float]:
    """Seconds by state, as a plain loop over the changes adds them up."""
    ends = [*of.times_s[1:], of.until_s]
    seconds = dict.fromkeys(range(UNKNOWN, len(STATES)), 0.0)
    for state, begin, end in zip(of.states, of.times_s, ends, strict=True) if of.times_s else ():
        seconds[state] += max(0.0, min(end, to_s, of.until_s) - max(begin, from_s))
    seconds[UNKNOWN] = to_s - from_s - sum(seconds.values())
    return seconds


@given(tracks(), windows)
def test_a_lanes_runs_add_up_to_its_columns_and_name_the_longest_state(of: WorkerTrack, window: Window) -> None:
    runs = runs_of(of, window)
    assert sum(columns for _, columns in runs) == window.columns
    assert all(before[0] != after[0] for before, after in pairwise(runs))
    shown = [state for state, columns in runs for _ in range(columns)]
    for column, state in enumerate(shown):
        from_s = window.from_s + column * window.column_s
        seconds = exact_s(of, from_s, from_s + window.column_s)
        assert seconds[state] >= max(seconds.values()) - 1e-6


@given(st.lists(tracks(), min_size=1, max_size=5), windows)
def test_a_bands_time_is_that_of_the_exact_timeline(of: list[WorkerTrack], window: Window) -> None:
    band = Band(window, len(of))
    for each in of:
        band.add(each)
    for state, columns in band.columns().items():
        assert len(columns) == window.columns
        expected = sum(exact_s(each, window.from_s, window.to_s)[state] for each in of)
        assert sum(columns) * window.column_s == pytest.approx(expected, abs=1e-6)
        for column, workers in enumerate(columns):
            from_s = window.from_s + column * window.column_s
            inside = sum(exact_s(each, from_s, from_s + window.column_s)[state] for each in of)
            assert workers * window.column_s == pytest.approx(inside, abs=1e-6)


@given(st.lists(tracks(), min_size=1, max_size=5), windows)
def test_shares_and_what_is_not_known_add_up_to_100_but_for_rounding(of: list[WorkerTrack], window: Window) -> None:
    band = Band(window, len(of))
    for each in of:
        band.add(each)
    shares = band.shares()
    for column in range(window.columns):
        from_s = window.from_s + column * window.column_s
        unknown = sum(exact_s(each, from_s, from_s + window.column_s)[UNKNOWN] for each in of)
        total = sum(columns[column] for columns in shares.values())
        assert total + 100 * unknown / window.column_s / len(of) == pytest.approx(100, abs=0.5 * len(STATES) + 0.01)


@given(tracks(), windows)
def test_points_read_the_state_that_holds_there(of: WorkerTrack, window: Window) -> None:
    band = Band(window, 1, points=1)
    band.add(of)
    columns = band.columns()
    for column in range(window.columns):
        middle_s = window.from_s + (column + 0.5) * window.column_s
        known = [s for s, at_s in zip(of.states, of.times_s, strict=True) if at_s <= middle_s <= of.until_s]
        assert {state for state, counts in columns.items() if counts[column]} == set(known[-1:])


def test_points_of_many_workers_come_near_the_exact_shares() -> None:
    window = Window(from_s=0.0, to_s=400.0, columns=4)
    of = [track(*((float(at), (TRAINING, ROLLOUT)[at % 4 == 3]) for at in range(-9 + n, 400))) for n in range(8)]
    band = Band(window, len(of), points=100)
    looked_at = sum(band.add(each) for each in of)
    assert looked_at == 400
    assert band.shares()[TRAINING] == pytest.approx([75] * 4, abs=3)


def shown(rows: Sequence[LaneRow | BandRow | None]) -> list[LaneRow | BandRow]:
    return [row for row in rows if row is not None]


def fleet(count: int, changes: int) -> Mapping[str, WorkerTrack]:
    names = [f"w-{number:05}" for number in range(count)]
    times = [float(at) for at in range(changes)]
    return {name: track(*((at, int(at) % 3) for at in times), label=name, until_s=changes) for name in names}


def test_bands_have_as_many_workers_as_fit_and_all_of_them() -> None:
    of = fleet(10, 5)
    found = shown(list(bands(list(of), of.__getitem__, Window(from_s=0.0, to_s=5.0, columns=5), 3)))
    assert [row.label for row in found] == ["w-00000 … w-00002", "w-00003 … w-00005", "w-00006 … w-00009"]
    assert [row.workers for row in found if isinstance(row, BandRow)] == [3, 3, 4]


def test_no_step_looks_at_more_than_its_share_whatever_the_timelines_hold() -> None:
    of, tracks_per_step, count = fleet(64, 4096), list[int](), 0

    def track_of(name: str) -> WorkerTrack:
        nonlocal count
        count += 1
        return of[name]

    for _ in bands(list(of), track_of, Window(from_s=0.0, to_s=4096.0, columns=64), 2, max_changes=2**30):
        tracks_per_step.append(count)
        count = 0
    assert max(tracks_per_step) <= STEP_CHANGES // TRACK_COST  # as long as only the place of the window is looked for
    assert len(tracks_per_step) >= len(of)  # then each has more changes than a step


def test_bands_of_too_many_changes_are_read_at_points() -> None:
    of = fleet(64, 4096)
    window = Window(from_s=0.0, to_s=4096.0, columns=64)
    found = shown(list(bands(list(of), of.__getitem__, window, 2, max_changes=4096)))
    assert [row.exact for row in found if isinstance(row, BandRow)] == [False, False]
    for row in found:
        assert isinstance(row, BandRow)
        assert all(sum(row.shares[state][column] for state in row.shares) in range(97, 104) for column in range(64))


def test_a_document_is_what_its_rows_say() -> None:
    of = {"a": track((0.0, IDLE), (6.0, ROLLOUT), label="a", devices=4), "b": track((4.0, IDLE), label="b")}
    window = Window(from_s=0.0, to_s=10.0, columns=5)
    mark = TimelineMark(at_unix_s=3.0, kind="step", label="1")
    document = document_of(
        head_of(window, kind="lanes", workers=2, marks=[mark]), lanes(sorted(of), of.__getitem__, window)
    )
    assert document.column_s == 2.0
    assert document.states == [state.value for state in WorkerState]
    assert [row.model_dump() for row in document.rows] == [
        {"label": "a", "devices": 4, "runs": [(IDLE, 3), (ROLLOUT, 2)]},
        {"label": "b", "devices": 1, "runs": [(UNKNOWN, 2), (IDLE, 3)]},
    ]
    assert TimelineDocument.model_validate_json(document.model_dump_json()) == document


def test_a_state_that_lasts_for_ever_is_one_run() -> None:
    assert runs_of(track((-5.0, IDLE)), Window(from_s=0.0, to_s=1.0, columns=MAX_COLUMNS)) == [(IDLE, MAX_COLUMNS)]
