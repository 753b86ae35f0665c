"""Requests of one worker advance together, as exactly as if each round were followed."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_simulator.run.batch import DecodedBatch, SimRequest
from tlt_simulator.run.speeds import RoundSpeed
from tlt_simulator.trace import TraceSample

SPEED = RoundSpeed(base_s=0.01, kv_token_s=1e-6, length=2.0)


def request(ref: int, tokens: int, *, prompt_tokens: int = 100) -> SimRequest:
    return SimRequest(ref, TraceSample(prompt=ref, prompt_tokens=prompt_tokens, tokens=tokens))


def filled(lengths: list[int]) -> DecodedBatch:
    batch = DecodedBatch()
    batch.set_speed(SPEED)
    for ref, tokens in enumerate(lengths):
        batch.add(request(ref, tokens), 0.0, prefill_s=0.0)
    return batch


def round_by_round(lengths: list[int], *, per_round: int = 100) -> list[float]:
    """Return when each request ends, by small steps of a token's part."""
    left, now_s, ends = dict(enumerate(map(float, lengths))), 0.0, [0.0] * len(lengths)
    kv_tokens = 100.0 * len(lengths)
    while left:
        tokens = min(*left.values(), SPEED.length / per_round)
        middle = kv_tokens + len(left) * tokens / 2.0
        now_s += tokens / SPEED.length * (SPEED.base_s + SPEED.kv_token_s * middle)
        kv_tokens += len(left) * tokens
        for ref in list(left):
            left[ref] -= tokens
            if left[ref] <= 1e-9:
                del left[ref]
                ends[ref] = now_s
                kv_tokens -= 100.0 + lengths[ref]
    return ends


@given(st.lists(st.integers(1, 60), min_size=1, max_size=5))
def test_requests_end_when_rounds_say(lengths: list[int]) -> None:
    batch, ends = filled(lengths), {}
    while len(batch):
        now_s = batch.next_event_s(inf)
        batch.advance(now_s)
        for one in batch.ended():
            ends[one.ref] = now_s
    assert [ends[ref] for ref in range(len(lengths))] == pytest.approx(round_by_round(lengths), rel=1e-6)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6), st.lists(st.floats(0.0, 0.5), max_size=8))
def test_every_token_is_counted_once_wherever_one_looks(lengths: list[int], pauses: list[float]) -> None:
    batch, now_s, done = filled(lengths), 0.0, 0
    for pause_s in pauses:
        now_s = min(now_s + pause_s, batch.next_event_s(inf))
        batch.advance(now_s)
        done += len(batch.ended())
    while len(batch):
        now_s = batch.next_event_s(inf)
        batch.advance(now_s)
        done += len(batch.ended())
    assert done == len(lengths)
    assert batch.produced == pytest.approx(sum(lengths), rel=1e-6)
    assert batch.rounds == pytest.approx(sum(lengths) / SPEED.length, rel=1e-6)
    assert batch.kv_tokens == 0.0


def test_a_request_that_moves_keeps_its_tokens_and_ends_elsewhere() -> None:
    here, there = filled([100, 50]), filled([])
    here.advance(0.2)
    moving = here.requests[0]
    had = moving.tokens
    assert 0 < had < 100
    here.remove(moving)
    there.advance(0.2)
    there.add(moving, 0.2, prefill_s=0.0)
    assert moving.tokens == had
    there.advance(there.next_event_s(inf))
    assert [one.ref for one in there.ended()] == [0]
    assert moving.generated == 100
    here.advance(here.next_event_s(inf))
    assert [one.ref for one in here.ended()] == [1]


def test_a_prefill_holds_up_all() -> None:
    with_prefill, without = filled([40]), filled([40])
    with_prefill.advance(0.05)
    without.advance(0.05)
    with_prefill.add(request(9, 1000), 0.05, prefill_s=0.3)
    without.add(request(9, 1000), 0.05, prefill_s=0.0)
    assert with_prefill.next_event_s(inf) == pytest.approx(without.next_event_s(inf) + 0.3)


def test_a_full_cache_gives_up_those_with_the_fewest_tokens() -> None:
    batch = filled([1000, 1000])
    batch.advance(0.1)
    batch.add(request(7, 1000), 0.1, prefill_s=0.0)
    room = batch.kv_tokens + 30.0
    batch.advance(batch.next_event_s(room))
    assert [one.ref for one in batch.retracted(room)] == [7]
    assert batch.kv_tokens < room
