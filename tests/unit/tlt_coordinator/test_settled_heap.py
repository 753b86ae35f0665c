"""The heap of long streams is not collected again and again, and what they leave behind is."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from tlt_coordinator.settled_heap import COLLECT_AFTER, MIN_OPENED, SettledHeap


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_streams_hold_is_frozen_once_per_growth() -> None:
    opened = 0
    heap = SettledHeap(lambda: opened, lambda: opened)
    heap.settle()
    assert gc.get_freeze_count() == 0
    opened = 1
    heap.settle()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    kept = [Cycle() for _ in range(100)]
    heap.settle()
    assert gc.get_freeze_count() == frozen
    assert kept


def test_cycles_of_streams_that_ended_are_freed_in_the_end() -> None:
    opened = 0
    heap = SettledHeap(lambda: opened, lambda: 2000)
    cycle = Cycle()
    left = weakref.ref(cycle)
    opened = 1
    heap.settle()
    del cycle
    opened = max(MIN_OPENED, COLLECT_AFTER * 2000) - 1
    heap.settle()
    assert left() is not None
    opened += 1
    heap.settle()
    assert left() is None
