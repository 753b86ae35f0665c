"""Whether a process was starved, from what Linux says about its threads."""

import os
from pathlib import Path

import pytest

from tlt_common.processes.core_waits import CoreWaits, ThreadTimes, WaitRecord


def process(*threads: tuple[float, float, bool]) -> CoreWaits:
    """Return threads by the seconds that they ran and waited, and whether they are runnable."""
    return CoreWaits(
        {
            number: ThreadTimes(ran_s=ran_s, waited_s=waited_s, runnable=runnable)
            for number, (ran_s, waited_s, runnable) in enumerate(threads)
        }
    )


def is_starved(*looks: CoreWaits) -> bool:
    """Return whether a process was starved that was looked at every ten seconds."""
    record = WaitRecord(looks[0], 100.0)
    for number, look in enumerate(looks[1:], 1):
        record.look(look, 100.0 + 10.0 * number)
    return record.is_starved


def test_one_thread_that_waited_most_of_the_time_is_enough() -> None:
    before = process((1.0, 1.0, False), (5.0, 2.0, True))
    assert is_starved(before, process((1.0, 1.0, False), (8.0, 8.0, True)))
    assert not is_starved(before, process((1.0, 1.0, False), (12.0, 5.0, True)))


def test_a_thread_that_is_runnable_and_has_not_run_waits_still() -> None:
    assert is_starved(process((1.0, 1.0, True)), process((1.0, 1.0, True)))  # Linux adds the wait when it ends


def test_a_wait_that_lasts_counts_from_the_last_time_the_thread_ran() -> None:
    ran_a_little = process((1.1, 1.0, True))
    assert is_starved(process((1.0, 1.0, True)), ran_a_little, ran_a_little, ran_a_little)
    assert is_starved(process((1.0, 1.0, False)), ran_a_little, ran_a_little, ran_a_little)
    assert not is_starved(process((1.0, 1.0, True)), ran_a_little)
    ran_on = process((9.0, 1.0, True))
    assert not is_starved(
        process((1.0, 1.0, True)), process((1.0, 1.0, True)), ran_on, ran_on, process((20, 1.0, True))
    )


def test_a_wait_counts_once_after_it_has_ended() -> None:
    waits = process((1.0, 1.0, True))
    assert not is_starved(waits, waits, process((9.0, 11.0, True)), process((19.0, 11.0, True)))


@pytest.mark.parametrize("runnable", [False, True])
def test_a_process_that_sleeps_or_computes_is_not_starved(runnable: bool) -> None:
    assert not is_starved(process((1.0, 1.0, runnable)), process((11.0 if runnable else 1.0, 1.0, runnable)))


def test_threads_that_began_since_count_from_their_beginning() -> None:
    assert is_starved(process((1.0, 1.0, False)), process((1.0, 1.0, False), (0.0, 9.0, False)))
    assert not is_starved(process((1.0, 1.0, False)), process((1.0, 1.0, False), (9.0, 0.0, True)))


def test_a_thread_that_has_ended_does_not_count() -> None:
    assert not is_starved(process((1.0, 1.0, False), (1.0, 1.0, True)), process((1.0, 1.0, False)))


def test_this_process_can_be_read_and_one_that_has_exited_is_not_starved() -> None:
    assert os.getpid() in CoreWaits.of(os.getpid()).threads
    gone = CoreWaits.of(2**22 + 1)
    assert not gone.threads
    assert CoreWaits.of_main_thread(2**22 + 1) == gone
    assert not is_starved(CoreWaits.of(os.getpid()), gone)


def test_threads_without_scheduler_statistics_are_left_out(tmp_path: Path) -> None:
    task = tmp_path / "7" / "task" / "7"
    task.mkdir(parents=True)
    (task / "stat").write_text("7 (a (b) c) R 1")
    assert not CoreWaits.of(7, tmp_path).threads
    (task / "schedstat").write_text("2000000000 500000000 12")
    assert CoreWaits.of_main_thread(7, tmp_path) == CoreWaits.of(7, tmp_path)
    assert CoreWaits.of(7, tmp_path).threads == {7: ThreadTimes(ran_s=2.0, waited_s=0.5, runnable=True)}
