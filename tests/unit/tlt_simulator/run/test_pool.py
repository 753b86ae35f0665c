"""What a trainer has to learn from is limited by takes, pool and cache, and what was seen often teaches little."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_simulator.run.scenarios import costs, scenario, step
from tlt_simulator.costs.model import CostModel
from tlt_simulator.run import simulate
from tlt_simulator.run.pool import StatePool
from tlt_simulator.scenario import CacheKeys


def with_states(state_bytes: float = 4096.0, lasting_passes: float = 15.0) -> CostModel:
    return costs(state_bytes=state_bytes, lasting_passes=lasting_passes)


def pool(
    costs: CostModel | None = None,
    *,
    budget_bytes: int = 2**40,
    pool_bytes: int = 2**40,
    take_tokens: int = 1000,
    take_every_s: float = 1.0,
) -> StatePool:
    return StatePool(
        costs or with_states(),
        CacheKeys(budget_bytes=budget_bytes),
        pool_bytes=pool_bytes,
        take_tokens=take_tokens,
        take_every_s=take_every_s,
    )


def test_a_lease_begins_with_one_take_and_the_rest_is_passed_over() -> None:
    found = pool()
    found.generated(5000)
    found.take()
    assert found.added == 1000
    assert found.tokens == pytest.approx(1000)
    found.take()
    assert found.added == 1000


def test_what_was_trained_on_is_replaced_by_as_much_that_is_new() -> None:
    found = pool()
    for _ in range(4):
        found.generated(1000)
        found.take()
    found.generated(10_000)
    found.train(500, 1.0)
    assert found.added == 4500
    found.train(5000, 2.5)  # of which two takes are full
    assert found.added == 6500


@pytest.mark.parametrize(("pool_bytes", "tokens"), [(100 * 4096, 100), (2**40, 1000)])
def test_the_pool_holds_as_many_bytes_as_it_may(pool_bytes: int, tokens: float) -> None:
    found = pool(pool_bytes=pool_bytes)
    found.generated(1000)
    found.take()
    assert found.tokens == pytest.approx(tokens)


def test_the_cache_holds_as_many_bytes_as_it_may() -> None:
    found = pool(budget_bytes=300 * 4096)
    found.generated(1000)
    found.take()
    assert found.added == 300


def test_states_of_an_unknown_size_fit() -> None:
    found = pool(with_states(state_bytes=0.0), budget_bytes=1, pool_bytes=1)
    found.generated(1000)
    found.take()
    assert found.added == 1000


def test_fifteen_passes_are_worth_ten_of_the_first() -> None:
    found = pool()
    found.generated(1000)
    found.take()
    held = found.tokens
    assert found.train(15 * held, 15.0) == pytest.approx(15 * held * 0.632, rel=1e-3)
    assert found.passes == pytest.approx(15)
    every = pool(with_states(lasting_passes=0.0))
    every.generated(1000)
    every.take()
    assert every.train(15 * held, 15.0) == pytest.approx(15 * held)


def test_without_states_nothing_is_learned() -> None:
    assert pool().train(1000, 10.0) == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.floats(1, 1e6), st.floats(1e-3, 1e3)), max_size=20),
    st.integers(256, 10_000),
    st.floats(1e-3, 100),
)
def test_nothing_is_worth_more_than_it_was_and_no_limit_is_passed(
    turns: list[tuple[float, float, float]], take: int, every_s: float
) -> None:
    found = pool(pool_bytes=5000 * 4096, take_tokens=take, take_every_s=every_s, budget_bytes=3000 * 4096)
    given_tokens = 0.0
    for generated, tokens, seconds in turns:
        found.generated(generated)
        given_tokens += generated
        found.take()
        assert 0.0 <= found.train(tokens, seconds) <= tokens * (1 + 1e-9)
        assert found.tokens <= 5000 + 1e-6
        assert found.added <= given_tokens + 1e-6
        assert found.passes >= 0.0


def test_a_run_with_few_states_learns_less(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step([200] * 20 + [8000])] * 3
    run = scenario(costs=with_states(), drafter_tokens=0)
    usual = simulate(steps, run).steps[-1].quality
    few = partial(StatePool, take_tokens=256, take_every_s=100.0)
    monkeypatch.setattr("tlt_simulator.run.learning.StatePool", few)
    assert simulate(steps, run).steps[-1].quality < usual
