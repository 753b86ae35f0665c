"""Responses that are kept after their stream broke. Time is virtual."""

import asyncio

import pytest

from tests.fakes.chunks import chunk
from tlt_common.domain.response import FinishReason, TokenChunk
from tlt_worker.requests import kept as module
from tlt_worker.requests.kept import KEPT_S, Kept, Underway

pytestmark = pytest.mark.looptime


def tokens_of(found: TokenChunk | None) -> tuple[int, ...] | None:
    return None if found is None else found.token_ids


async def test_what_a_broken_stream_sent_can_be_taken_once() -> None:
    kept = Kept()
    underway = Underway(kept)
    for token in (1, 2, 3):
        underway.add("a", chunk(token))
    underway.add("b", chunk(4, finish=FinishReason.STOP))
    underway.add("", chunk(5))
    assert kept.keys == ()
    underway.broke()
    assert set(kept.keys) == {"a", "b"}
    assert tokens_of(kept.take("a")) == (1, 2, 3)
    assert kept.take("a") is None
    finished = kept.take("b")
    assert finished is not None
    assert finished.finish_reason is FinishReason.STOP


async def test_nobody_can_take_what_its_caller_gave_up() -> None:
    kept = Kept()
    underway = Underway(kept)
    underway.add("left", chunk(1))
    underway.drop("left")
    underway.add("aborted", chunk(1))
    underway.add("aborted", chunk(finish=FinishReason.ABORT))
    underway.broke()
    assert kept.keys == ()


async def test_it_is_kept_for_a_while() -> None:
    kept, told = Kept(), list[int]()
    kept.changed = lambda: told.append(1)
    underway = Underway(kept)
    underway.add("long ago", chunk(1, finish=FinishReason.STOP))
    await asyncio.sleep(KEPT_S + 1)
    underway.add("now", chunk(1))
    underway.broke()
    assert (kept.keys, told) == (("now",), [1])
    await asyncio.sleep(KEPT_S + 1)
    assert kept.keys == ()
    assert kept.take("now") is None


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKENS", 10)
    monkeypatch.setattr(module, "MAX_RESPONSES", 3)
    kept = Kept()
    for number in range(5):
        kept.put(str(number), chunk(1))
    assert list(kept.keys) == ["2", "3", "4"]
    kept.put("large", chunk(*range(9)))
    assert list(kept.keys) == ["4", "large"]
    kept.put("larger", chunk(*range(20)))
    assert not kept.keys
