from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import WorkerState
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.ledger import TIMELINE_CHANGES, Account, Ledger, bubble_utilisation

START_S = 1_800_000_000.0
spells = st.lists(st.tuples(st.sampled_from(WorkerState), st.integers(0, 10**6)), min_size=1, max_size=60)


@given(spells)
def test_seconds_of_all_states_add_up_to_wall_time(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(WorkerState.IDLE, START_S), START_S
    for state, lasted_s in spells:
        account.enter(state, now_s)
        now_s += lasted_s
        assert sum(account.seconds(now_s).values()) == now_s - START_S


@given(spells)
def test_each_state_gets_exactly_the_time_spent_in_it(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(spells[0][0], START_S), START_S
    for state, lasted_s in spells:
        account.enter(state, now_s)
        now_s += lasted_s
    for state in WorkerState:
        assert account.seconds(now_s)[state] == sum(lasted_s for spell, lasted_s in spells if spell is state)


@given(spells)
def test_the_timeline_holds_changes_only_and_in_order(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(WorkerState.IDLE, START_S), START_S
    for state, lasted_s in spells:
        now_s += lasted_s
        account.enter(state, now_s)
    assert account.timeline[0].state is WorkerState.IDLE
    assert account.timeline[-1].state is spells[-1][0]
    for before, after in pairwise(account.timeline):
        assert before.state is not after.state
        assert before.at_unix_s <= after.at_unix_s


def test_the_timeline_forgets_its_oldest_changes_and_the_seconds_do_not() -> None:
    account = Account(WorkerState.IDLE, START_S)
    for second in range(2 * TIMELINE_CHANGES):
        account.enter((WorkerState.ROLLOUT, WorkerState.IDLE)[second % 2], START_S + second)
    assert len(account.timeline) == TIMELINE_CHANGES
    assert sum(account.seconds(START_S + 2 * TIMELINE_CHANGES).values()) == 2 * TIMELINE_CHANGES


def test_bubble_utilisation_is_training_over_all_bubbles_of_all_workers() -> None:
    ledger = Ledger()
    ledger.enter(WorkerId("a"), WorkerState.TRAINING, START_S)
    ledger.enter(WorkerId("a"), WorkerState.SWITCHING, START_S + 6)
    ledger.enter(WorkerId("a"), WorkerState.ROLLOUT, START_S + 7)
    ledger.enter(WorkerId("b"), WorkerState.ROLLOUT, START_S)
    ledger.enter(WorkerId("b"), WorkerState.IDLE, START_S + 7)
    assert ledger.bubble_utilisation(START_S + 10) == 6 / (6 + 1 + 3)


def test_without_a_bubble_none_was_used() -> None:
    assert bubble_utilisation([]) == 0.0


def test_a_worker_never_seen_has_no_account() -> None:
    with pytest.raises(KeyError):
        Ledger().account(WorkerId("nobody"))
