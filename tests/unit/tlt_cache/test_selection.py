"""Which frames a training batch is made of."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_cache.entries import entry
from tlt_cache.selection import LAST_STEP_SHARE, choose


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 900), st.integers(1, 60)), max_size=40),
    st.integers(1, 500),
    st.integers(0, 2**31),
    st.integers(0, 5),
)
def test_a_batch_is_within_its_tokens_distinct_and_repeatable(
    found: list[tuple[int, int, int]], max_tokens: int, seed: int, oldest: int
) -> None:
    held = [entry(n, policy=policy, length=length, tokens=tokens) for n, (policy, length, tokens) in enumerate(found)]
    batch = choose(held, max_tokens=max_tokens, seed=seed, min_policy_version=oldest)
    assert sum(e.tokens for e in batch) <= max_tokens
    assert len({e.sequence for e in batch}) == len(batch)
    assert all(e.policy_version >= oldest for e in batch)
    assert choose(reversed(held), max_tokens=max_tokens, seed=seed, min_policy_version=oldest) == batch
    if any(e.policy_version >= oldest and e.tokens <= max_tokens for e in held):
        assert batch


def test_long_responses_of_the_last_step_are_mixed_into_the_newest_ones() -> None:
    held = [entry(n, policy=2, length=50) for n in range(100)]
    held += [entry(100 + n, policy=1, length=900 if n % 2 else 20) for n in range(100)]
    batch = choose(held, max_tokens=400, seed=1)
    last_step = [e for e in batch if e.policy_version == 1]
    assert len(last_step) == LAST_STEP_SHARE * 40
    assert {e.response_tokens for e in last_step} == {900}


def test_older_policies_fill_what_the_newest_leaves() -> None:
    held = [entry(1, policy=3), entry(2, policy=2), entry(3, policy=1), entry(4, policy=0)]
    assert {e.policy_version for e in choose(held, max_tokens=30, seed=0)} == {3, 2, 1}


def test_long_responses_are_preferred_and_short_ones_not_left_out() -> None:
    held = [entry(n, length=1000 if n < 50 else 50) for n in range(100)]
    batch = choose(held, max_tokens=400, seed=3)
    long = sum(e.response_tokens == 1000 for e in batch)
    assert 30 <= long < 40


def test_another_seed_is_another_batch() -> None:
    held = [entry(n) for n in range(100)]
    assert choose(held, max_tokens=200, seed=1) != choose(held, max_tokens=200, seed=2)
