from hypothesis import given
from hypothesis import strategies as st

from tlt_worker.requests.watchers import max_min

DEMANDS = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40), min_size=1)


@given(st.integers(6, 40), DEMANDS)
def test_all_slots_are_given_and_nobody_who_wants_more_gets_less_than_another(
    slots: int, demands: dict[str, int]
) -> None:
    shares = max_min(slots, demands)
    assert sum(shares.values()) == slots
    for one, share in shares.items():
        if share < demands[one]:
            assert all(other <= share + 1 for other in shares.values())
            assert all(shares[other] <= max(demands[other], share + 1) for other in shares)


@given(st.integers(6, 40), DEMANDS)
def test_who_demands_little_gets_it_all(slots: int, demands: dict[str, int]) -> None:
    shares = max_min(slots, demands)
    for one, demand in demands.items():
        assert shares[one] >= min(demand, slots // len(demands))


@given(st.integers(1, 40), st.integers(0, 40))
def test_a_lone_gateway_has_all_slots_whatever_it_demands(slots: int, demand: int) -> None:
    assert max_min(slots, {"a": demand}) == {"a": max(slots, min(demand, 1))}


@given(st.integers(1, 5))
def test_with_fewer_slots_than_gateways_each_that_demands_may_try(slots: int) -> None:
    shares = max_min(slots, dict.fromkeys("abcdef", 3))
    assert min(shares.values()) == 1


def test_slots_that_nobody_demands_are_divided_equally() -> None:
    assert max_min(8, {"a": 6, "b": 0}) == {"a": 7, "b": 1}
    assert max_min(8, {"a": 100, "b": 0}) == {"a": 8, "b": 0}
