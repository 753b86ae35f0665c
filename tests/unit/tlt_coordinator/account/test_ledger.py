from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.fleet import BUBBLES, PastChange, StateChange, WorkerHello, WorkerState, WorkerStatus
from tlt_common.domain.ids import WorkerId
from tlt_coordinator.account.ledger import (
    ALL_CHANGES,
    LEAST_CHANGES,
    TIMELINE_CHANGES,
    Account,
    Ledger,
    TimelineCapacity,
)

START_S = 1_800_000_000.0


def lent(state: WorkerState, training_s: float, *, age_s: float = 0.0) -> WorkerStatus:
    return WorkerStatus(state=state, lent=True, training_s=training_s, training_age_s=age_s)


spells = st.lists(st.tuples(st.sampled_from(WorkerState), st.integers(0, 10**6)), min_size=1, max_size=60)


@given(spells)
def test_seconds_of_all_states_add_up_to_wall_time(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(WorkerState.IDLE, START_S), START_S
    for state, lasted_s in spells:
        account.report(WorkerStatus(state=state), now_s)
        now_s += lasted_s
        assert sum(account.seconds(now_s).values()) == now_s - START_S


@given(spells)
def test_each_state_gets_exactly_the_time_spent_in_it(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(spells[0][0], START_S), START_S
    for state, lasted_s in spells:
        account.report(WorkerStatus(state=state), now_s)
        now_s += lasted_s
    for state in WorkerState:
        # Nobody said that the device computed: the trainer held it, and that is all.
        expected = {
            WorkerState.TRAINING: set[WorkerState](),
            WorkerState.SWITCHING: {WorkerState.SWITCHING, WorkerState.TRAINING},
        }.get(state, {state})
        assert account.seconds(now_s)[state] == sum(lasted_s for spell, lasted_s in spells if spell in expected)


@given(spells)
def test_the_timeline_holds_changes_only_and_in_order(spells: list[tuple[WorkerState, int]]) -> None:
    account, now_s = Account(WorkerState.IDLE, START_S), START_S
    for state, lasted_s in spells:
        now_s += lasted_s
        account.report(WorkerStatus(state=state), now_s)
    assert account.timeline()[0].state is WorkerState.IDLE
    assert account.timeline()[-1].state is spells[-1][0]
    for before, after in pairwise(account.timeline()):
        assert before.state is not after.state
        assert before.at_unix_s <= after.at_unix_s


def test_the_timeline_forgets_its_oldest_changes_and_the_seconds_do_not() -> None:
    account = Account(WorkerState.IDLE, START_S)
    for second in range(2 * TIMELINE_CHANGES):
        account.report(WorkerStatus(state=(WorkerState.ROLLOUT, WorkerState.IDLE)[second % 2]), START_S + second)
    assert len(account.timeline()) == TIMELINE_CHANGES
    assert sum(account.seconds(START_S + 2 * TIMELINE_CHANGES).values()) == 2 * TIMELINE_CHANGES


def test_bubble_utilisation_is_training_over_all_bubbles_of_all_workers() -> None:
    ledger = Ledger()
    ledger.report(WorkerId("a"), lent(WorkerState.TRAINING, 0.0), START_S)
    ledger.report(WorkerId("a"), lent(WorkerState.SWITCHING, 6.0), START_S + 6)
    ledger.report(WorkerId("a"), WorkerStatus(state=WorkerState.ROLLOUT, training_s=6.0), START_S + 7)
    ledger.report(WorkerId("b"), WorkerStatus(state=WorkerState.ROLLOUT), START_S)
    ledger.report(WorkerId("b"), WorkerStatus(state=WorkerState.IDLE), START_S + 7)
    assert ledger.bubbles(START_S + 10).utilisation == 6 / (6 + 1 + 3)


def hello(worker_id: str = "a", *, devices: int = 1, training_devices: int = 1) -> WorkerHello:
    return WorkerHello(
        worker_id=WorkerId(worker_id),
        address="host:1",
        model="m",
        device="gpu",
        max_running=1,
        devices=devices,
        training_devices=training_devices,
    )


@pytest.mark.parametrize("used", [1, 4])
def test_a_worker_with_four_devices_has_four_seconds_per_second_and_those_not_used_for_training_are_idle(
    used: int,
) -> None:
    ledger, worker_id = Ledger(), WorkerId("a")
    ledger.join(hello(devices=4, training_devices=used), START_S)
    ledger.report(worker_id, WorkerStatus(state=WorkerState.ROLLOUT), START_S)
    ledger.report(worker_id, lent(WorkerState.TRAINING, 0.0), START_S + 10)
    ledger.report(worker_id, lent(WorkerState.TRAINING, 7.0 * used), START_S + 20)
    seconds = ledger.account(worker_id).seconds(START_S + 20)
    assert seconds[WorkerState.ROLLOUT] == 40.0
    assert seconds[WorkerState.TRAINING] == 7.0 * used
    assert seconds[WorkerState.SWITCHING] == 3.0 * used
    assert seconds[WorkerState.IDLE] == 10.0 * (4 - used)
    assert ledger.bubbles(START_S + 20).utilisation == 7.0 * used / 40.0


reports = st.lists(
    st.tuples(st.sampled_from(WorkerState), st.booleans(), st.floats(0, 50), st.integers(0, 100), st.integers(1, 8)),
    min_size=1,
    max_size=40,
)


@given(reports)
def test_seconds_add_up_to_wall_time_times_devices_whatever_is_reported(
    reports: list[tuple[WorkerState, bool, float, int, int]],
) -> None:
    ledger, worker_id, now_s, expected_s, computed_s = Ledger(), WorkerId("a"), START_S, 0.0, 0.0
    for state, is_lent, more_s, lasted_s, devices in reports:
        ledger.join(hello(devices=devices, training_devices=(devices + 1) // 2), now_s)
        computed_s += more_s
        ledger.report(worker_id, WorkerStatus(state=state, lent=is_lent, training_s=computed_s), now_s)
        now_s += lasted_s
        expected_s += devices * lasted_s
        seconds = ledger.account(worker_id).seconds(now_s)
        assert sum(seconds.values()) == pytest.approx(expected_s)
        bubbles = sum(seconds[state] for state in BUBBLES)
        assert ledger.bubbles(now_s).total_s == pytest.approx(bubbles, abs=1e-6)


def test_a_new_coordinator_knows_what_was_and_what_workers_did_before_it_saw_them() -> None:
    former, worker_id = Ledger(), WorkerId("a")
    former.join(hello(devices=2), START_S)
    former.report(worker_id, WorkerStatus(state=WorkerState.IDLE), START_S)
    new = Ledger(former.totals(START_S + 10))
    history = (PastChange(state=WorkerState.ROLLOUT, age_s=17.0), PastChange(state=WorkerState.IDLE, age_s=12.0))
    known = (
        StateChange(state=WorkerState.ROLLOUT, at_unix_s=START_S - 5),
        StateChange(state=WorkerState.IDLE, at_unix_s=START_S),
    )
    new.join(replace(hello(devices=2), history=history), START_S + 12)
    new.report(worker_id, WorkerStatus(state=WorkerState.IDLE), START_S + 12)
    assert new.totals(START_S + 13)[WorkerState.IDLE] == 22.0
    assert new.bubbles(START_S + 13).total_s == 22.0
    timeline = new.account(worker_id).timeline()
    assert timeline[:2] == known
    assert sum(new.account(worker_id).seconds(START_S + 13).values()) == 2.0, "what it did before is in no sum"
    new.join(replace(hello(devices=2), history=(*history, *history[:1])), START_S + 14)
    assert new.account(worker_id).timeline()[:2] == known, "known once is known"


def test_without_a_bubble_none_was_used() -> None:
    assert Ledger().bubbles(START_S).utilisation == 0.0


def test_a_worker_never_seen_has_no_account() -> None:
    with pytest.raises(KeyError):
        Ledger().account(WorkerId("nobody"))


def test_training_is_what_the_device_computed_and_the_rest_of_the_loan_is_switching_or_idle() -> None:
    account = Account(WorkerState.IDLE, START_S)
    account.report(lent(WorkerState.SWITCHING, 0.0), START_S)  # the trainer starts
    account.report(lent(WorkerState.TRAINING, 0.0), START_S + 2)
    account.report(lent(WorkerState.TRAINING, 5.0), START_S + 8)  # computed 5 of 6 s, published in the other
    account.report(lent(WorkerState.IDLE, 5.0), START_S + 8)  # no data
    account.report(lent(WorkerState.TRAINING, 5.0), START_S + 20)
    account.report(
        lent(WorkerState.SWITCHING, 5.0, age_s=1.0), START_S + 21
    )  # to be given back; last read a second ago
    account.report(WorkerStatus(state=WorkerState.ROLLOUT, training_s=5.75), START_S + 22)
    seconds = account.seconds(START_S + 22)
    assert seconds[WorkerState.TRAINING] == 5.75
    assert seconds[WorkerState.IDLE] == 12.0
    assert seconds[WorkerState.SWITCHING] == 2 + 1 + 0.25 + 1
    assert sum(seconds.values()) == 22.0


def test_what_the_trainer_has_not_reported_yet_is_not_settled() -> None:
    account = Account(WorkerState.IDLE, START_S)
    account.report(lent(WorkerState.TRAINING, 0.0), START_S)
    account.report(lent(WorkerState.TRAINING, 1.0, age_s=1.0), START_S + 3)
    assert account.seconds(START_S + 4)[WorkerState.TRAINING] == 1.0
    assert account.unsettled(START_S + 4)[WorkerState.SWITCHING] == 2.0
    account.report(lent(WorkerState.TRAINING, 3.5), START_S + 4)
    assert account.seconds(START_S + 4)[WorkerState.TRAINING] == 3.0  # never more than it was lent for
    assert sum(account.unsettled(START_S + 4).values()) == 0.0


def test_a_stream_that_reconnects_does_not_count_what_was_computed_before_or_while_it_was_away() -> None:
    account = Account(WorkerState.IDLE, START_S)
    account.report(lent(WorkerState.TRAINING, 0.0), START_S)
    account.lose(START_S + 4)
    account.report(lent(WorkerState.TRAINING, 9.0), START_S + 10)
    account.report(lent(WorkerState.TRAINING, 11.0), START_S + 12)
    seconds = account.seconds(START_S + 12)
    assert seconds[WorkerState.TRAINING] == 2.0
    assert seconds[WorkerState.DOWN] == 6.0
    assert seconds[WorkerState.SWITCHING] == 4.0


@st.composite
def stories(draw: st.DrawFn) -> list[tuple[float, WorkerStatus | None]]:
    """Reports of a worker whose trainer computes at any share of the time it is lent; None: it is lost."""
    story: list[tuple[float, WorkerStatus | None]] = []
    training_s = 0.0
    for _ in range(draw(st.integers(1, 30))):
        lasted_s = draw(st.floats(0.0, 100.0))
        state = draw(st.sampled_from([*WorkerState, None]))
        lends = draw(st.booleans()) and state in {WorkerState.TRAINING, WorkerState.SWITCHING, WorkerState.IDLE}
        training_s += draw(st.floats(0.0, 2.0)) * lasted_s  # also more than is possible
        age_s = draw(st.floats(0.0, 200.0)) if lends else 0.0
        status = WorkerStatus(state=state, lent=lends, training_s=training_s, training_age_s=age_s) if state else None
        story.append((lasted_s, status))
    return story


@given(stories())
def test_sums_equal_wall_time_and_what_is_settled_only_increases(
    story: list[tuple[float, WorkerStatus | None]],
) -> None:
    account, now_s = Account(WorkerState.IDLE, START_S), START_S
    settled = dict.fromkeys(WorkerState, 0.0)
    for lasted_s, status in story:
        for later_s in (0.0, lasted_s / 2, lasted_s):
            seconds, unsettled = account.seconds(now_s + later_s), account.unsettled(now_s + later_s)
            assert sum(seconds.values()) == pytest.approx(now_s + later_s - START_S, abs=1e-4)
            assert unsettled[WorkerState.TRAINING] == 0.0
            before, settled = settled, account.settled(now_s + later_s)
            left = {state: seconds[state] - unsettled[state] for state in WorkerState}
            assert settled == pytest.approx(left, abs=1e-4)
            assert all(settled[state] >= before[state] - 1e-4 for state in WorkerState)
        now_s += lasted_s
        if status is None:
            account.lose(now_s)
        else:
            account.report(status, now_s)


@given(st.lists(st.tuples(st.floats(0.1, 20.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=20))
def test_training_is_exactly_what_was_computed_however_late_it_is_read(loan: list[tuple[float, float, float]]) -> None:
    account, now_s, training_s = Account(WorkerState.IDLE, START_S), START_S, 0.0
    account.report(lent(WorkerState.TRAINING, 0.0), now_s)
    for lasted_s, share, read in loan:
        read_s = training_s + share * read * lasted_s
        training_s += share * lasted_s
        now_s += lasted_s
        account.report(lent(WorkerState.TRAINING, read_s, age_s=(1.0 - read) * lasted_s), now_s)
    account.report(lent(WorkerState.SWITCHING, read_s, age_s=(1.0 - read) * lasted_s), now_s)
    account.report(WorkerStatus(state=WorkerState.IDLE, training_s=training_s), now_s + 1.0)
    assert account.seconds(now_s + 1.0)[WorkerState.TRAINING] == pytest.approx(training_s, abs=1e-4)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.0, 100.0), stories()), max_size=4))
def test_the_sums_are_those_of_all_accounts(
    workers: list[tuple[int, float, list[tuple[float, WorkerStatus | None]]]],
) -> None:
    ledger, now_s = Ledger(), START_S
    for number, later_s, story in workers:
        for lasted_s, status in story:
            now_s += lasted_s
            if status is None:
                ledger.lose(WorkerId(f"w{number}"), now_s)
            else:
                ledger.report(WorkerId(f"w{number}"), status, now_s)
        now_s += later_s
    accounts, following = ledger.next_accounts(0, 10)
    assert following == 0
    seconds = {state: sum(account.seconds(now_s)[state] for _, account in accounts) for state in WorkerState}
    bubbles_s = sum(seconds[state] for state in BUBBLES)
    expected = seconds[WorkerState.TRAINING] / bubbles_s if bubbles_s > 1e-3 else None
    assert expected is None or ledger.bubbles(now_s).utilisation == pytest.approx(expected, abs=1e-3)


def test_accounts_are_returned_in_turn() -> None:
    ledger = Ledger()
    for number in range(5):
        ledger.lose(WorkerId(f"w{number}"), START_S)
    position, names = 0, []
    for _ in range(6):
        accounts, position = ledger.next_accounts(position, 2)
        names.append([str(worker_id) for worker_id, _ in accounts])
    assert names == [["w0", "w1"], ["w2", "w3"], ["w4"]] * 2


def test_the_timelines_of_a_large_fleet_share_what_all_may_hold() -> None:
    room, part = TimelineCapacity(), ALL_CHANGES // 10_240
    for workers, kept in ((1, TIMELINE_CHANGES), (2048, TIMELINE_CHANGES), (10_240, part), (10**6, LEAST_CHANGES)):
        room.share(workers)
        assert room.changes == kept
    account = Account(WorkerState.IDLE, START_S, room)
    for second in range(4 * LEAST_CHANGES):
        account.report(WorkerStatus(state=(WorkerState.ROLLOUT, WorkerState.IDLE)[second % 2]), START_S + second)
        assert len(account.track("w", START_S).times_s) <= LEAST_CHANGES * 5 // 4
    assert len(account.timeline()) == LEAST_CHANGES


def test_a_timeline_is_shortened_to_the_latest_changes() -> None:
    account = Account(WorkerState.IDLE, START_S)
    for second, state in enumerate((WorkerState.TRAINING, WorkerState.SWITCHING, WorkerState.ROLLOUT)):
        account.report(WorkerStatus(state=state), START_S + second)
    assert [change.state for change in account.timeline(2)] == [WorkerState.SWITCHING, WorkerState.ROLLOUT]
    assert account.timeline(0) == ()


@pytest.mark.parametrize("start_s", [0.0, START_S])
def test_a_ledger_may_begin_at_any_time(start_s: float) -> None:
    ledger = Ledger()
    assert sum(ledger.totals(start_s).values()) == 0.0
    for number in range(3):
        ledger.report(WorkerId(f"w{number}"), WorkerStatus(state=WorkerState.IDLE), start_s + 10.0 * number)
    assert ledger.since_s == start_s
    assert ledger.totals(start_s + 30.0)[WorkerState.IDLE] == 30.0 + 20.0 + 10.0
