"""The one bounded queue of a worker, and the thread that fills it."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY

from tlt_common.codec import encode
from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.hidden import EncodedFrame, FrameHeader
from tlt_common.domain.ids import DrafterVersion, PolicyVersion, RequestId
from tlt_common.domain.tuner import RoundReport
from tlt_worker.engine.link_reader import MAX_REPORTS, LinkReader
from tlt_worker.engine.queue import BoundedQueue
from tlt_worker.link.messages import Dropped
from tlt_worker.link.scheduler_end import SchedulerEnd
from tlt_worker.link.settings import LinkSettings
from tlt_worker.link.worker_end import WorkerEnd

WAIT_S = 20.0


def queue(budget: int, dropped: list[int]) -> BoundedQueue[int]:
    """Of numbers, each as large as it says."""
    return BoundedQueue(budget, size_of=lambda item: item, on_drop=dropped.append)


async def first(batches: AsyncGenerator[tuple[int, ...]]) -> tuple[int, ...]:
    async with asyncio.timeout(WAIT_S):
        return await anext(batches)


@given(budget=st.integers(1, 50), items=st.lists(st.integers(1, 20), max_size=40))
def test_it_says_how_full_it_is(budget: int, items: list[int]) -> None:
    made, kept = queue(budget, []), 0
    for item in items:
        kept += item if made.put(item) else 0
        assert made.used == pytest.approx(kept / budget)


@given(budget=st.integers(1, 50), items=st.lists(st.integers(1, 20), max_size=40))
def test_what_fits_is_kept_in_order_and_what_does_not_is_dropped(budget: int, items: list[int]) -> None:
    dropped: list[int] = []
    bounded, kept = queue(budget, dropped), list[int]()
    for item in items:
        fits = sum(kept) + item <= budget
        assert bounded.put(item) is fits
        kept += [item] if fits else []
    assert sorted(kept + dropped) == sorted(items)

    async def all_taken() -> tuple[int, ...]:
        async with aclosing(bounded.batches()) as batches:
            return await first(batches)

    if kept:
        assert asyncio.run(all_taken()) == tuple(kept)


async def test_a_batch_counts_until_the_next_one_is_asked_for() -> None:
    dropped: list[int] = []
    bounded = queue(10, dropped)
    async with aclosing(bounded.batches()) as batches:
        bounded.put(8)
        assert await first(batches) == (8,)
        assert not bounded.put(3)
        assert bounded.put(2)
        assert await first(batches) == (2,)
        assert bounded.put(8)
    assert dropped == [3]
    assert not bounded.put(3)  # 8 still waits
    assert bounded.put(2)


async def test_putting_from_a_thread_wakes_the_taker() -> None:
    bounded = queue(10, [])
    async with aclosing(bounded.batches()) as batches:
        taking = asyncio.create_task(first(batches))
        await asyncio.sleep(0)
        thread = threading.Thread(target=bounded.put, args=(1,))
        thread.start()
        assert await taking == (1,)
        thread.join()


def frame(number: int) -> EncodedFrame:
    header = FrameHeader(
        request_id=RequestId(f"r{number:03}"), policy_version=PolicyVersion(0), prompt_hash=7, start=0, token_count=1,
        hidden_size=64, dtype="F32", prompt_tokens=1, response_tokens=1, finished=True,
    )  # fmt: skip
    return encode(header, (1, 2), [bytes(256)])


@contextmanager
def linked(directory: Path, *, queue_bytes: int) -> Iterator[tuple[SchedulerEnd, LinkReader]]:
    """A scheduler's end of a link, and the reader at the worker's."""
    settings = LinkSettings(directory=str(directory))
    with (
        closing(WorkerEnd(settings)) as link,
        closing(SchedulerEnd(settings)) as scheduler,
        closing(LinkReader(link, queue_bytes=queue_bytes)) as reader,
    ):
        reader.start()
        yield scheduler, reader


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def until(name: str, value: float, **labels: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while counted(name, **labels) < value:  # noqa: ASYNC110 - a thread counts
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("dropped", [0, 7])
async def test_one_counter_has_what_the_link_and_the_queue_dropped(tmp_path: Path, dropped: int) -> None:
    frames, windows = "tlt_worker_frames_dropped_total", "tlt_worker_windows_dropped_total"
    before, windows_before = counted(frames, reason="full"), counted(windows)
    with linked(tmp_path, queue_bytes=3 * frame(0).size_bytes) as (scheduler, reader):
        scheduler.dropped = Dropped(frames=dropped, windows=dropped)
        for number in range(10):
            assert scheduler.send(frame(number))
        await until(frames, before + 7 + dropped, reason="full")
        assert counted(frames, reason="full") == before + 7 + dropped
        assert counted(windows) == windows_before + dropped
        async with aclosing(reader.frames.batches()) as batches, asyncio.timeout(WAIT_S):
            assert await anext(batches) == (frame(0), frame(1), frame(2))


async def test_reports_nobody_takes_are_counted_as_windows(tmp_path: Path) -> None:
    window = ArmWindow(
        arm="off", group=1, rounds=1, accepted_tokens=0, produced_tokens=1, elapsed_s=0.1, median_reward=1.0
    )
    report = RoundReport(drafter_version=DrafterVersion(0), arms=(window, window))
    name = "tlt_worker_windows_dropped_total"
    before = counted(name)
    with linked(tmp_path, queue_bytes=1) as (scheduler, _):
        for _ in range(MAX_REPORTS + 6):
            assert scheduler.send(report)
        await until(name, before + 2 * 6)
        assert counted(name) == before + 2 * 6
