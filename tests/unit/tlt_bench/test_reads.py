"""The loop of GPUs refuses a round whose event comes before the last read of the scheduler's tables."""

from types import SimpleNamespace

import pytest

from tlt_bench.gpu_loop.reads import TableReads


def runner() -> SimpleNamespace:
    return SimpleNamespace(shared_read_done_event=None)


def test_the_runner_that_read_last_may_be_waited_for() -> None:
    reads, target, drafter = TableReads(), runner(), runner()
    reads.passes(drafter, publishes=True)  # a block
    reads.passes(target, publishes=True)  # its verification
    reads.require_last(target)
    assert target.shared_read_done_event is None, "an event counts once"
    reads.require_last(target)


def test_an_event_of_an_earlier_pass_is_refused() -> None:
    reads, target, drafter = TableReads(), runner(), runner()
    reads.passes(drafter, publishes=True)
    reads.passes(target, publishes=True)
    with pytest.raises(AssertionError, match="waits for read 1 of its tables, and read 2 comes later"):
        reads.require_last(drafter)


def test_a_read_outside_of_passes_counts_too() -> None:
    reads, target = TableReads(), runner()
    reads.passes(target, publishes=True)
    reads.reads()
    with pytest.raises(AssertionError, match="comes later"):
        reads.require_last(target)


def test_without_an_event_the_whole_round_is_waited_for() -> None:
    reads, target, drafter = TableReads(), runner(), runner()
    reads.passes(drafter, publishes=True)
    reads.passes(target, publishes=True)
    reads.passes(drafter, publishes=False)  # a draft-extend
    reads.require_last(drafter)
