from hypothesis import given
from hypothesis import strategies as st

from countdown.budget import TimeBudget


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=30), st.floats(0, 1000))
def test_steps_that_take_as_long_as_the_one_before_never_run_over(lengths: list[float], ends: float) -> None:
    budget, now = TimeBudget(ends_unix_s=ends), 0.0
    before = 0.0
    for length in sorted(lengths, reverse=True):
        budget.begin(now)
        now += length
        if before:
            assert now <= ends + 1e-6
        before = length
        if not budget.allows_another(now):
            assert now + length > ends
            return


@given(st.integers(1, 9))
def test_the_first_steps_run_whatever_the_time(min_steps: int) -> None:
    budget, steps = TimeBudget(ends_unix_s=0.0, min_steps=min_steps), 1
    budget.begin(10.0)
    while budget.allows_another(10.0 * (steps + 1)):
        steps += 1
        budget.begin(10.0 * steps)
    assert steps == min_steps


def test_a_step_that_would_end_too_late_does_not_begin() -> None:
    budget = TimeBudget(ends_unix_s=100.0)
    budget.begin(0.0)
    assert budget.allows_another(50.0)
    budget.begin(50.0)
    assert not budget.allows_another(76.0)
