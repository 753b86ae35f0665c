from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tlt_common.domain.ids import PolicyVersion
from tlt_common.load import AnnouncedRequests
from tlt_coordinator.account.steps import KEPT_STEPS, SAME_STEP_S, RunStep, Steps

ALL = (0.0, 1e9)


def a_step(steps: Steps, policy: int, began_s: float) -> None:
    """Run 3 requests within a second, then update."""
    steps.report(3, began_s)
    steps.report(1, began_s + 0.5, ended=2, tokens=20)
    steps.report(0, began_s + 1.0, ended=1, tokens=30)
    steps.change_policy(PolicyVersion(policy), began_s + 2.0)


def test_a_step_begins_with_its_requests_ends_with_them_and_is_over_with_the_update() -> None:
    steps = Steps()
    steps.report(0, 1.0)
    assert steps.between(*ALL) == []
    a_step(steps, 1, 10.0)
    a_step(steps, 2, 20.0)
    assert steps.between(*ALL) == [
        RunStep(
            number=number,
            policy_version=PolicyVersion(number - 1),
            began_s=10.0 * number,
            ended_s=10.0 * number + 1.0,
            updated_s=10.0 * number + 2.0,
            requests=3,
            tokens=50,
        )
        for number in (1, 2)
    ]


def test_a_step_that_runs_has_no_end() -> None:
    steps = Steps()
    steps.report(5, 10.0)
    (step,) = steps.between(*ALL)
    assert (step.began_s, step.ended_s, step.requests) == (10.0, None, 5)


def announced(caller: int, count: int) -> list[AnnouncedRequests]:
    return [AnnouncedRequests(caller=caller, count=count)]


def test_what_is_announced_is_of_the_next_step_that_begins() -> None:
    steps = Steps()
    steps.announce("g", announced(0, 8))
    steps.announce("g", announced(0, 6))  # instead
    steps.announce("g", announced(1, 2))
    steps.announce("h", announced(0, 4))
    steps.report(12, 10.0)
    steps.announce("g", announced(0, 16))  # while this one runs
    steps.report(0, 11.0, ended=12)
    steps.report(1, 11.5)  # the same step goes on
    steps.report(0, 12.0, ended=1)
    a_step(steps, 1, 40.0)
    a_step(steps, 2, 60.0)
    assert [(step.announced, step.source) for step in steps.between(*ALL)] == [
        (12, "announced"),
        (16, "announced"),
        (0, "learned"),
    ]


def test_what_is_taken_back_is_not_announced() -> None:
    steps = Steps()
    steps.announce("g", announced(0, 8))
    steps.announce("g", announced(0, 0))
    steps.report(1, 10.0)
    assert [step.source for step in steps.between(*ALL)] == ["learned"]


def test_requests_that_follow_soon_belong_to_the_step() -> None:
    steps = Steps()
    steps.report(2, 10.0)
    steps.report(0, 11.0, ended=2, tokens=8)
    steps.report(1, 11.0 + SAME_STEP_S)
    steps.report(0, 25.0, ended=1, tokens=1)
    (step,) = steps.between(*ALL)
    assert (step.began_s, step.ended_s, step.requests, step.tokens) == (10.0, 25.0, 3, 9)
    steps.report(1, 25.1 + SAME_STEP_S)
    assert [step.number for step in steps.between(*ALL)] == [1, 2]


def test_an_update_while_requests_run_ends_one_step_and_begins_the_next() -> None:
    steps = Steps()
    steps.report(4, 10.0)
    steps.change_policy(PolicyVersion(1), 12.0)
    steps.report(4, 12.4, ended=1, tokens=7)
    first, second = steps.between(*ALL)
    assert (first.ended_s, first.updated_s, first.tokens) == (12.0, 12.0, 7)
    assert (second.began_s, second.ended_s, second.policy_version, second.requests) == (12.0, None, 1, 4)


def test_a_step_whose_end_is_reported_after_the_update_is_no_two_steps() -> None:
    """Loads are reported twice a second; an update may be faster."""
    steps = Steps()
    steps.report(4, 10.0)
    steps.change_policy(PolicyVersion(1), 12.0)
    steps.report(0, 12.3, ended=4, tokens=7)
    (step,) = steps.between(*ALL)
    assert (step.ended_s, step.updated_s, step.requests) == (12.0, 12.0, 4)


def test_requests_that_began_and_ended_between_two_reports_are_a_step() -> None:
    steps = Steps()
    steps.report(0, 10.5, ended=2, tokens=6)
    (step,) = steps.between(*ALL)
    assert (step.began_s, step.ended_s, step.requests, step.tokens) == (10.5, 10.5, 2, 6)


def test_steps_of_a_span_are_those_of_which_a_part_is_in_it() -> None:
    steps = Steps()
    for number in (1, 2, 3):
        a_step(steps, number, 10.0 * number)
    assert [step.number for step in steps.between(21.5, 29.0)] == [2]
    assert [step.number for step in steps.between(12.5, 20.0)] == []
    assert [step.number for step in steps.between(0.0, 20.1)] == [1, 2]


def test_updates_of_a_span_are_those_within_it() -> None:
    steps = Steps()
    for number in (1, 2, 3):
        a_step(steps, number, 10.0 * number)
    assert [(update.version, update.at_s) for update in steps.updates(12.5, 32.0)] == [(2, 22.0)]


def test_only_the_latest_are_kept() -> None:
    steps = Steps()
    for number in range(KEPT_STEPS + 10):
        a_step(steps, number + 1, 10.0 * number)
    kept = steps.between(*ALL)
    assert len(kept) == KEPT_STEPS + 1
    assert kept[-1].number == KEPT_STEPS + 10


events = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.booleans(), st.sampled_from([0.1, 1.0, 20.0])), max_size=40
)


@given(events)
def test_whatever_is_reported_steps_follow_each_other_and_lose_no_request(
    reports: list[tuple[int, int, bool, float]],
) -> None:
    steps, now_s, policy = Steps(), 100.0, 0
    for active, ended, updates, after_s in reports:
        now_s += after_s
        if updates:
            policy += 1
            steps.change_policy(PolicyVersion(policy), now_s)
        steps.report(active, now_s, ended=ended, tokens=10 * ended)
    seen = steps.between(*ALL)
    assert [step.number for step in seen] == list(range(1, len(seen) + 1))
    assert sum(step.tokens for step in seen) == 10 * sum(ended for _, ended, _, _ in reports)
    for before, after in pairwise(seen):
        assert before.ended_s is not None
        assert before.began_s <= before.ended_s <= (before.updated_s or after.began_s) <= after.began_s
    assert (seen[-1].ended_s is None if seen else False) == bool(reports and reports[-1][0])
