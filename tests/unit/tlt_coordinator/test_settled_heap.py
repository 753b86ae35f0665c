"""The heap of long streams is not collected again and again, and what they leave behind is."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from tlt_coordinator.settled_heap import COLLECT_AFTER, COLLECT_EVERY_S, FREEZE_EVERY_S, MIN_OPENED, SettledHeap

CONNECTED = 2000


class Cycle:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def frozen_garbage(heap: SettledHeap) -> "weakref.ref[Cycle]":
    cycle = Cycle()
    heap.settle()
    return weakref.ref(cycle)


def test_what_lives_on_is_left_to_its_reference_counts() -> None:
    heap = SettledHeap(lambda: 0, lambda: CONNECTED)
    kept = [Cycle() for _ in range(100)]
    heap.settle()
    assert gc.get_freeze_count() > 100
    assert not {id(one) for one in kept} & {id(one) for one in gc.get_objects()}


def test_young_garbage_is_freed_at_once() -> None:
    heap = SettledHeap(lambda: 0, lambda: CONNECTED)
    left = weakref.ref(Cycle())
    heap.settle()
    assert left() is None


def test_garbage_of_streams_that_ended_is_freed_after_enough_of_them() -> None:
    opened = 0
    heap = SettledHeap(lambda: opened, lambda: CONNECTED)
    left = frozen_garbage(heap)
    opened = max(MIN_OPENED, COLLECT_AFTER * CONNECTED) - 1
    heap.settle()
    assert left() is not None
    opened += 1
    heap.settle()
    assert left() is None


def test_garbage_is_freed_once_per_hour_at_least() -> None:
    heap = SettledHeap(lambda: 0, lambda: CONNECTED)
    left = frozen_garbage(heap)
    for _ in range(round(COLLECT_EVERY_S / FREEZE_EVERY_S) - 2):
        heap.settle()
    assert left() is not None
    heap.settle()
    assert left() is None
