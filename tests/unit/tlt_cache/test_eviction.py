"""What goes when room is needed."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_cache.entries import entry
from tlt_cache.entry import Entry, unpacked
from tlt_cache.eviction import spare_bytes, victims


def evicted(held: tuple[Entry, ...], *, needed_bytes: int, budget_bytes: int) -> tuple[Entry, ...]:
    used_bytes = sum(e.size_bytes for e in held)
    return victims(held, spare_bytes(used_bytes=used_bytes, needed_bytes=needed_bytes, budget_bytes=budget_bytes))


entries = st.lists(
    st.builds(
        entry,
        st.just(0),
        policy=st.integers(0, 3),
        length=st.integers(0, 999),
        request=st.sampled_from(["a", "b", "c", "d"]),
        size=st.integers(1, 200),
    ),
    max_size=30,
).map(
    lambda found: tuple(
        entry(n, policy=e.policy_version, length=e.response_tokens, request=e.request_id, size=e.size_bytes)
        for n, e in enumerate(found)
    )
)


@given(entries, st.integers(0, 200), st.integers(200, 3000))
def test_what_is_left_and_what_comes_fit_the_budget(held: tuple[Entry, ...], needed: int, budget: int) -> None:
    gone = evicted(held, needed_bytes=needed, budget_bytes=budget)
    left = sum(e.size_bytes for e in held) - sum(e.size_bytes for e in gone)
    assert left + needed <= budget
    assert len(set(gone)) == len(gone)


@given(entries, st.integers(0, 200), st.integers(200, 3000))
def test_no_newer_policy_goes_before_an_older_one(held: tuple[Entry, ...], needed: int, budget: int) -> None:
    gone = evicted(held, needed_bytes=needed, budget_bytes=budget)
    kept = set(held) - set(gone)
    if gone and kept:
        assert max(e.policy_version for e in gone) <= min(e.policy_version for e in kept)


def test_nothing_goes_while_there_is_room() -> None:
    assert evicted((entry(1), entry(2)), needed_bytes=100, budget_bytes=300) == ()


def test_short_responses_go_before_long_ones_of_the_same_policy() -> None:
    held = (entry(1, length=900), entry(2, length=20), entry(3, length=500))
    assert [e.sequence for e in evicted(held, needed_bytes=100, budget_bytes=300)] == [2, 3]


def test_an_early_frame_counts_as_long_as_its_response_became() -> None:
    held = (entry(1, request="long", length=10), entry(2, request="long", length=900), entry(3, length=50))
    assert [e.sequence for e in evicted(held, needed_bytes=20, budget_bytes=300)] == [3]


@given(entries)
def test_a_line_of_the_index_says_everything(held: tuple[Entry, ...]) -> None:
    lines = [struct.pack("<Q", e.size_bytes) + e.packed() for e in held]  # stores write the size before a line
    assert tuple(unpacked(e.sequence, line) for e, line in zip(held, lines, strict=True)) == held
