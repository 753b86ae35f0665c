"""Whether a process was starved, from what Linux says about its threads."""

import os
from pathlib import Path

import pytest

from tlt_common.processes.core_waits import CoreWaits, ThreadTimes


def process(*threads: tuple[float, float, bool]) -> CoreWaits:
    """Return threads by the seconds that they ran and waited, and whether they are runnable."""
    return CoreWaits(
        {
            number: ThreadTimes(ran_s=ran_s, waited_s=waited_s, runnable=runnable)
            for number, (ran_s, waited_s, runnable) in enumerate(threads)
        }
    )


def test_one_thread_that_waited_most_of_the_time_is_enough() -> None:
    before = process((1.0, 1.0, False), (5.0, 2.0, True))
    assert process((1.0, 1.0, False), (8.0, 8.0, True)).is_starved_since(before, 10.0)
    assert not process((1.0, 1.0, False), (12.0, 5.0, True)).is_starved_since(before, 10.0)


def test_a_thread_that_is_runnable_and_has_not_run_waits_still() -> None:
    before = process((1.0, 1.0, True))
    assert process((1.0, 1.0, True)).is_starved_since(before, 10.0)  # Linux adds the wait when it ends


@pytest.mark.parametrize("runnable", [False, True])
def test_a_process_that_sleeps_or_computes_is_not_starved(runnable: bool) -> None:
    before = process((1.0, 1.0, runnable))
    assert not process((11.0 if runnable else 1.0, 1.0, runnable)).is_starved_since(before, 10.0)


def test_threads_that_began_since_count_from_their_beginning() -> None:
    assert process((1.0, 1.0, False), (0.0, 9.0, False)).is_starved_since(process((1.0, 1.0, False)), 10.0)
    assert not process((1.0, 1.0, False), (9.0, 0.0, True)).is_starved_since(process((1.0, 1.0, False)), 10.0)


def test_this_process_can_be_read_and_one_that_has_exited_is_not_starved() -> None:
    assert os.getpid() in CoreWaits.of(os.getpid()).threads
    gone = CoreWaits.of(2**22 + 1)
    assert not gone.threads
    assert not gone.is_starved_since(CoreWaits.of(os.getpid()), 10.0)


def test_threads_without_scheduler_statistics_are_left_out(tmp_path: Path) -> None:
    task = tmp_path / "7" / "task" / "7"
    task.mkdir(parents=True)
    (task / "stat").write_text("7 (a (b) c) R 1")
    assert not CoreWaits.of(7, tmp_path).threads
    (task / "schedstat").write_text("2000000000 500000000 12")
    assert CoreWaits.of(7, tmp_path).threads == {7: ThreadTimes(ran_s=2.0, waited_s=0.5, runnable=True)}
