from hypothesis import given
from hypothesis import strategies as st

from tlt_common.processes.guard import ProcessEntry
from tlt_local.supervision.guard import doomed


def entry(pid: int, parent: int, *, marked: bool = False) -> ProcessEntry:
    return ProcessEntry(pid=pid, parent=parent, marked=marked)


def test_descendants_of_the_marked_go_too_even_when_they_hide_their_environment() -> None:
    tree = [entry(10, 1), entry(20, 10, marked=True), entry(30, 20), entry(40, 30), entry(50, 10)]
    assert doomed(tree, spared=99) == {20, 30, 40}


def test_an_orphan_that_is_marked_goes() -> None:
    assert doomed([entry(20, 1, marked=True)], spared=99) == {20}


def test_the_guard_spares_itself() -> None:
    assert doomed([entry(20, 1, marked=True), entry(99, 20, marked=True)], spared=99) == {20}


processes = st.lists(
    st.builds(ProcessEntry, pid=st.integers(2, 30), parent=st.integers(0, 30), marked=st.booleans()),
    unique_by=lambda process: process.pid,
)


@given(processes)
def test_nobody_goes_who_is_neither_marked_nor_below_somebody_marked(tree: list[ProcessEntry]) -> None:
    by_pid = {process.pid: process for process in tree}
    for pid in doomed(tree, spared=1):
        seen: set[int] = set()
        while not by_pid[pid].marked:
            assert pid not in seen
            seen.add(pid)
            pid = by_pid[pid].parent  # noqa: PLW2901 - climbs to who brought it here
