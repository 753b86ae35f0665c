from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_worker.capacity.arms import SMALL, questions
from tlt_common.bandit import BanditConfig
from tlt_common.domain.arm import OFF, chain, ngram, tree
from tlt_worker.capacity.graphs.batches import allowed_sizes, batch_sizes, reach
from tlt_worker.capacity.graphs.cost import Costs
from tlt_worker.capacity.graphs.plan import Question, plan_graphs
from tlt_worker.capacity.graphs.runner import Stage, runners_of

SHARES = st.floats(0, 1.1)


@given(questions(), SHARES)
@settings(max_examples=60, deadline=None)
def test_a_budget_is_never_exceeded(question: Question, share: float) -> None:
    budget = int(plan_graphs(question).bytes * share)
    plan = plan_graphs(replace(question, budget=budget))
    assert plan.bytes <= budget
    assert plan.bytes == question.costs.total(plan.captures)


@given(questions(), SHARES, SHARES)
@settings(max_examples=60, deadline=None)
def test_a_smaller_budget_drops_the_same_and_more(question: Question, one: float, other: float) -> None:
    whole = plan_graphs(question).bytes
    less, more = sorted((int(whole * one), int(whole * other)))
    small, large = (plan_graphs(replace(question, budget=budget)) for budget in (less, more))
    assert small.dropped[: len(large.dropped)] == large.dropped


@given(questions())
@settings(max_examples=60, deadline=None)
def test_sharing_and_thresholds_never_take_more_than_every_arm_by_itself(question: Question) -> None:
    plan = plan_graphs(question)
    assert plan.bytes <= plan.naive
    assert plan.single <= plan.naive


@given(questions(), SHARES)
@settings(max_examples=60, deadline=None)
def test_what_an_arm_may_run_at_is_captured_or_dropped_by_name(question: Question, share: float) -> None:
    plan = plan_graphs(replace(question, budget=int(plan_graphs(question).bytes * share)))
    gone = {graph.runner for graph in plan.dropped}
    for arm in plan.arms:
        for batch in range(1, question.max_batch + 1):
            if question.allows(arm, batch):
                assert all(plan.has_graph(runner, batch) or runner in gone for runner in runners_of(arm))


@given(questions())
@settings(max_examples=60, deadline=None)
def test_no_arm_is_captured_where_none_that_shares_it_may_run(question: Question) -> None:
    plan = plan_graphs(question)
    for runner, sizes in plan.captures.items():
        users = [arm for arm in plan.arms if runner in runners_of(arm)]
        assert all(any(question.allows(arm, size) for arm in users) for size in sizes)


@given(st.integers(1, 600), st.integers(1, 600))
def test_every_batch_up_to_the_most_has_a_size_close_above(most: int, batch: int) -> None:
    sizes = batch_sizes(most)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[-1] == most
    size = reach(sizes, batch)
    assert (size is None) == (batch > most)
    if size is not None:
        assert batch <= size < batch + 16


def test_an_arm_is_captured_up_to_its_threshold() -> None:
    thresholds = BanditConfig(speculate_below_requests=32, group_below_requests={16: 10})
    assert allowed_sizes(tree(4, 4, 16), 64, thresholds.allows) == (1, 2, 3, 4, 5, 6, 7, 8, 9)
    assert allowed_sizes(chain(3), 64, thresholds.allows)[-1] == 31
    assert allowed_sizes(OFF, 64, thresholds.allows)[-1] == 64


def test_arms_with_the_same_tokens_to_verify_share_the_targets_graphs_and_the_extends() -> None:
    wide, deep = tree(4, 8, 16), tree(8, 4, 16)
    shared = set(runners_of(wide)) & set(runners_of(deep))
    assert {runner.stage for runner in shared} == {Stage.VERIFY, Stage.EXTEND}
    assert not set(runners_of(wide)) & set(runners_of(chain(15)))  # attention is planned differently for a tree
    assert set(runners_of(ngram(7))) < set(runners_of(chain(7)))
    one_drafter_apart = set(runners_of(chain(7))) ^ set(runners_of(chain(7, sampled=False)))
    assert {runner.stage for runner in one_drafter_apart} == {Stage.DRAFT}


def test_off_and_a_chain_of_one_capture_no_draft_steps() -> None:
    assert [runner.stage for runner in runners_of(OFF)] == [Stage.VERIFY]
    assert [runner.stage for runner in runners_of(chain(1))] == [Stage.VERIFY, Stage.EXTEND]


def test_the_largest_batches_are_dropped_first() -> None:
    costs = Costs(model=SMALL, context_length=512)
    question = Question(arms=(chain(3), chain(7)), costs=costs, max_batch=16, allows=BanditConfig().allows)
    whole = plan_graphs(question)
    plan = plan_graphs(replace(question, budget=whole.bytes // 2))
    for runner, sizes in plan.captures.items():
        assert sizes == whole.captures[runner][: len(sizes)]
    saved = [graph.saves_s for graph in plan.dropped]
    assert all(seconds > 0 for seconds in saved)
