"""Which requests move in the tail: properties of every plan, and the cases the rule is for."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_gateway.consolidation.views import PACE, STEEP, request, view, worker
from tlt_common.domain.ids import WorkerId
from tlt_common.forecast import TailWorker
from tlt_gateway.consolidation.ends import ends_s
from tlt_gateway.consolidation.plan import WORTH_S, moves

FOUR = [worker(number) for number in range(4)]
ONE_LONG = [request(0, 0, 20_000), request(1, 1, 3000), request(2, 2, 3500), request(3, 3, 4000)]


def test_short_ones_share_a_worker_while_the_long_one_keeps_its_own() -> None:
    plan = moves(view(FOUR, ONE_LONG), at_most=4, slack=0.0)
    assert len(plan.moves) == 2
    assert len({one.to for one in plan.moves}) == 1
    assert WorkerId("w0") not in {one.to for one in plan.moves}
    assert plan.moved_end_s == pytest.approx(plan.end_s, rel=1e-3)
    assert plan.freed_s > 10.0


def test_nothing_moves_if_all_are_expected_to_end_together_and_company_costs() -> None:
    workers = [replace(one, pace=STEEP) for one in FOUR]
    requests = [request(number, number, 10_000.0) for number in range(4)]
    assert moves(view(workers, requests), at_most=4, slack=0.0).moves == ()


def test_slack_lets_the_step_end_later_by_as_much_and_no_more() -> None:
    requests = [request(number, number, 10_000.0, kv_tokens=30_000) for number in range(4)]
    strict, generous = (moves(view(FOUR, requests), at_most=4, slack=slack) for slack in (0.0, 0.3))
    assert len(generous.moves) > len(strict.moves)
    assert generous.moved_end_s <= generous.end_s * 1.3005


def test_what_has_less_left_than_its_prefill_costs_stays() -> None:
    requests = [request(0, 0, 60_000), request(1, 1, 9000), request(2, 2, 300, kv_tokens=200_000)]
    moved = {one.request.ref for one in moves(view(FOUR[:3], requests), at_most=4, slack=0.0).moves}
    assert 2 not in moved


def test_nothing_moves_to_where_the_cache_has_no_room_for_what_is_to_come() -> None:
    tight = [replace(one, kv_room=9500) for one in FOUR]
    assert moves(view(tight, ONE_LONG), at_most=4, slack=0.0).moves == ()


def test_one_that_was_packed_leaves_again_when_it_turns_out_to_be_the_last() -> None:
    workers = [replace(one, pace=STEEP) for one in FOUR]
    requests = [request(0, 0, 20_000), request(1, 0, 8000), request(2, 1, 1000)]
    plan = moves(view(workers, requests), at_most=4, slack=0.0)
    assert [(one.request.ref, one.to) for one in plan.moves] == [(1, "w1")]
    assert plan.moved_end_s < plan.end_s


@pytest.mark.parametrize("change", [{"lendable": False}, {"training": True}])
def test_a_worker_that_cannot_be_lent_or_is_lent_is_not_emptied(change: dict[str, bool]) -> None:
    workers = [replace(one, **change) for one in FOUR]  # type: ignore[arg-type] # of these fields
    assert moves(view(workers, ONE_LONG), at_most=4, slack=0.0).moves == ()


paces = st.sampled_from((PACE, STEEP, replace(PACE, prefill_token_s=1e-3)))
workers = st.integers(1, 6).flatmap(
    lambda count: st.tuples(
        *(
            st.builds(
                worker,
                st.just(number),
                pace=paces,
                slots=st.integers(1, 8),
                kv_room=st.sampled_from((20_000, 100_000, 10**6)),
                lendable=st.booleans(),
                training=st.booleans(),
            )
            for number in range(count)
        )
    )
)
requests = st.lists(
    st.tuples(st.integers(0, 5), st.floats(1.0, 40_000.0), st.integers(1, 60_000), st.floats(1.0, 2.0)), max_size=14
)


@settings(max_examples=50)
@given(workers, requests, st.integers(0, 6), st.sampled_from((0.0, 0.05, 0.5)))
def test_every_plan_keeps_the_promises(
    fleet: tuple[TailWorker, ...], drawn: list[tuple[int, float, int, float]], at_most: int, slack: float
) -> None:
    running = [
        request(ref, at % len(fleet), tokens, kv_tokens=kv, spread=spread)
        for ref, (at, tokens, kv, spread) in enumerate(drawn)
    ]
    plan = moves(view(list(fleet), running), at_most=at_most, slack=slack)
    assert plan == moves(view(list(reversed(fleet)), list(reversed(running))), at_most=at_most, slack=slack)
    assert plan.moved_end_s <= plan.end_s * (1.0 + slack + 0.001)
    by_name = {one.worker_id: one for one in fleet}
    counts = Counter(one.worker_id for one in running)
    assert len({one.request.ref for one in plan.moves}) == len(plan.moves)
    for move in plan.moves:
        assert move.to != move.request.worker_id
        counts[move.request.worker_id] -= 1
        counts[move.to] += 1
    for move in plan.moves:
        assert counts[move.to] <= min(at_most, by_name[move.to].slots)
        assert not by_name[move.to].training
        arrived = [one.request for one in plan.moves if one.to == move.to]
        there = [one for one in running if one.worker_id == move.to and one not in {m.request for m in plan.moves}]
        assert sum(one.kv_tokens + one.left.at(0.9) for one in (*arrived, *there)) <= by_name[move.to].kv_room
    assert plan.freed_s == 0.0 or plan.freed_s >= WORTH_S


@given(st.lists(st.tuples(st.floats(0.0, 30_000.0), st.integers(0, 60_000)), min_size=1, max_size=8))
def test_requests_of_a_worker_end_in_the_order_of_what_they_have_left(drawn: list[tuple[float, int]]) -> None:
    tokens, kv = [one[0] for one in drawn], [one[1] for one in drawn]
    ends, alone = ends_s(tokens, kv, PACE), [ends_s([one[0]], [one[1]], PACE)[0] for one in drawn]
    assert all(end >= own - 1e-6 for end, own in zip(ends, alone, strict=True))
    assert sorted(range(len(ends)), key=lambda place: (ends[place], tokens[place])) == sorted(
        range(len(ends)), key=lambda place: (tokens[place], ends[place])
    )
    later = ends_s(tokens, kv, PACE, stall_s=2.0)
    assert all(after == pytest.approx(before + 2.0) for before, after in zip(ends, later, strict=True))
