"""Nothing of an engine outlives its owner."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.machine import lives
from tlt_common.processes import guard
from tlt_common.processes.guard import Guard, ProcessEntry, doomed

DEADLINE_S = 10.0


def await_end(pids: list[int]) -> list[int]:
    give_up_s = time.monotonic() + DEADLINE_S
    while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() < give_up_s:
        threading.Event().wait(0.02)
    return left


def await_absence(directory: Path) -> None:
    give_up_s = time.monotonic() + DEADLINE_S
    while directory.exists():
        assert time.monotonic() < give_up_s
        threading.Event().wait(0.02)


OWNER = """
    import os, subprocess, sys
    from pathlib import Path
    from tlt_common.processes.guard import Guard
    sleeper = "import time; time.sleep(600)"
    parent = (
        "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
        "print(p.pid, flush=True); time.sleep(600)"
    )
    guard = Guard(Path(sys.argv[1]))
    environment = {**os.environ, **guard.variables}
    marked = subprocess.Popen([sys.executable, "-c", parent], env=environment, stdout=subprocess.PIPE)
    free = subprocess.Popen([sys.executable, "-c", sleeper])
    print(marked.pid, int(marked.stdout.readline()), free.pid, flush=True)
    sys.stdin.read()
"""


def test_children_and_directory_of_a_killed_owner_are_gone_within_seconds(tmp_path: Path) -> None:
    directory = tmp_path / "engine"
    directory.mkdir()
    (directory / "model.safetensors").touch()
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(OWNER), str(directory)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        child, grandchild, free = map(int, owner.stdout.readline().split())
        assert all(map(lives, (child, grandchild, free)))
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        try:
            assert await_end([child, grandchild]) == []
            await_absence(directory)
            assert lives(free), "a process without the mark is somebody else's"
        finally:
            os.kill(free, signal.SIGKILL)


def test_closing_ends_the_children_now() -> None:
    owner = Guard()
    child = subprocess.Popen(["/bin/sleep", "600"], env={**os.environ, **owner.variables})
    owner.close()
    owner.close()
    assert child.wait(timeout=DEADLINE_S) == -signal.SIGKILL
    assert not guard.doomed(guard.living(f"{guard.TOKEN_VARIABLE}={owner.token}"), spared=0)


def test_a_resource_tracker_that_serves_the_owner_too_is_neither_killed_nor_awaited() -> None:
    owner = Guard()
    program = [sys.executable, "-c", "import sys; sys.stdin.read()", "multiprocessing.resource_tracker"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, env={**os.environ, **owner.variables}) as tracker:
        assert guard.sweep(f"{guard.TOKEN_VARIABLE}={owner.token}", limit_s=600) == []
        owner.close()
        assert tracker.poll() is None


def test_guards_do_not_know_each_other() -> None:
    one, two = Guard(), Guard()
    child = subprocess.Popen(["/bin/sleep", "600"], env={**os.environ, **one.variables})
    two.close()
    assert child.poll() is None
    one.close()
    child.wait(timeout=DEADLINE_S)


def test_shared_memory_of_the_killed_is_removed_and_that_of_others_stays() -> None:
    # Nothing of Python's own: its resource tracker would tidy up behind us.
    program = """
        import mmap, os, sys, time
        with open(sys.argv[1], "w+b") as file:
            file.truncate(4096)
            kept = mmap.mmap(file.fileno(), 4096)
        print("mapped", flush=True)
        time.sleep(600)
    """
    path, other = Path(f"/dev/shm/tlt-test-{os.getpid()}"), Path(f"/dev/shm/tlt-other-{os.getpid()}")  # noqa: S108
    other.touch()
    owner = Guard()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(path)],
            env={**os.environ, **owner.variables},
            stdout=subprocess.PIPE,
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            assert path.exists()
            owner.close()
        assert not path.exists()
        assert other.exists()
    finally:
        owner.close()
        other.unlink()
        path.unlink(missing_ok=True)


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
