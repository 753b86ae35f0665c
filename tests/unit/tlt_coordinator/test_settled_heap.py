"""The heap of long streams is not collected again and again, and what they leave behind is."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from tlt_coordinator.settled_heap import (
    COLLECT_EVERY_S,
    FREEZE_EVERY_S,
    MAX_GROWTH,
    MIN_GROWTH_BYTES,
    SETTLING_S,
    SettledHeap,
    resident_bytes,
)

CALLS = round(SETTLING_S / FREEZE_EVERY_S)
LARGE = 8 * MIN_GROWTH_BYTES


class Cycle:
    def __init__(self) -> None:
        self.me = self


class Process:
    """What a heap is told."""

    def __init__(self) -> None:
        self.opened, self.resident_bytes = 1, LARGE
        self.heap = SettledHeap(lambda: self.opened, lambda: self.resident_bytes)

    def frozen_garbage(self) -> "weakref.ref[Cycle]":
        cycle = Cycle()
        self.heap.settle()
        return weakref.ref(cycle)


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_what_lives_on_is_left_to_its_reference_counts() -> None:
    process = Process()
    kept = [Cycle() for _ in range(100)]
    process.heap.settle()
    assert gc.get_freeze_count() > 100
    assert not {id(one) for one in kept} & {id(one) for one in gc.get_objects()}


def test_young_garbage_is_freed_at_once() -> None:
    process = Process()
    left = weakref.ref(Cycle())
    process.heap.settle()
    assert left() is None


def test_nothing_is_frozen_once_no_more_workers_join() -> None:
    process = Process()
    for _ in range(CALLS):
        process.heap.settle()
    cycle = Cycle()
    process.heap.settle()
    assert gc.is_tracked(cycle)
    assert id(cycle) in {id(one) for one in gc.get_objects()}
    process.opened += 1
    process.heap.settle()
    assert id(cycle) not in {id(one) for one in gc.get_objects()}


@pytest.mark.parametrize("resident", [LARGE, 0])
def test_garbage_is_freed_once_the_process_has_grown(resident: int) -> None:
    process = Process()
    process.resident_bytes = resident
    process.heap = SettledHeap(lambda: process.opened, lambda: process.resident_bytes)
    left = process.frozen_garbage()
    process.resident_bytes += max(MIN_GROWTH_BYTES, int(MAX_GROWTH * resident))
    process.heap.settle()
    assert left() is not None
    process.resident_bytes += 1
    process.heap.settle()
    assert left() is None


def test_growth_is_measured_from_the_last_collection() -> None:
    process = Process()
    process.resident_bytes *= 2
    process.heap.settle()
    left = process.frozen_garbage()
    process.heap.settle()
    assert left() is not None


def test_garbage_is_freed_once_per_hour_at_least() -> None:
    process = Process()
    left = process.frozen_garbage()
    for _ in range(round(COLLECT_EVERY_S / FREEZE_EVERY_S) - 2):
        process.heap.settle()
    assert left() is not None
    process.heap.settle()
    assert left() is None


def test_the_memory_of_this_process_is_known() -> None:
    assert resident_bytes() > 2**20
