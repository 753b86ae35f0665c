"""A simulated run keeps what holds for the product, whatever the lengths."""

import pytest
import structlog
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_simulator.run.scenarios import costs, scenario, step
from tlt_common.domain.fleet import WorkerState
from tlt_coordinator.config import LendingPolicy
from tlt_simulator.result import SimulatedRun
from tlt_simulator.run import compare, simulate, with_rollout_share
from tlt_simulator.scenario import EngineKeys, SuiteKeys
from tlt_simulator.trace import RunTrace, TraceSample, TraceStep

TAILED = step([40, 60, 80, 100] * 6 + [4000])
LENT = {WorkerState.TRAINING, WorkerState.SWITCHING}


def lent(run: SimulatedRun, number: int) -> list[tuple[float, int, str]]:
    return [(turn.at_s, turn.worker, turn.state) for turn in run.turns[number] if turn.state in LENT]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 3000), min_size=1, max_size=40), min_size=1, max_size=3),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_all_responses_end_and_all_seconds_are_somewhere(
    lengths: list[list[int]], workers: int, colocated: bool, speculates: bool
) -> None:
    keys = SuiteKeys(speculation=speculates)
    steps = [step(one) for one in lengths]
    run = simulate(steps, scenario(workers, slots=4, colocated=colocated, suite=keys))
    assert [one.responses for one in run.steps] == [len(one) for one in lengths]
    for one in run.steps:
        assert sum(one.by_state.values()) == pytest.approx(workers * one.seconds)
        assert one.rounds <= one.tokens * (1 + 1e-6)
        assert one.learn_s == pytest.approx(5.0)
    assert run.steps[-1].began_s + run.steps[-1].seconds == pytest.approx(run.seconds)


def test_a_lone_request_takes_what_its_rounds_cost() -> None:
    run = simulate([step([1000], prompt_tokens=500)], scenario(1).plain)
    rounds_s = 1000 * (0.005 + 0.005 + 2e-5) + 1e-8 * (500 * 1000 + 1000 * 1000 / 2)
    assert run.rollout_s == pytest.approx(rounds_s + 500 * 1e-5, rel=1e-6)
    assert run.steps[0].accept_length == pytest.approx(1.0)


def test_without_the_suite_nothing_is_lent_or_drafted() -> None:
    run = simulate([TAILED] * 2, scenario().plain)
    assert run.state_s(*LENT) == 0.0
    assert all(one.drafter == 0 for one in run.steps)
    assert [one.accept_length for one in run.steps] == pytest.approx([1.0, 1.0])


def test_idle_workers_are_lent_once_they_have_settled_and_return_for_requests() -> None:
    keys = SuiteKeys(spot=LendingPolicy(settle_s=1.0))
    run = simulate([TAILED] * 2, scenario(colocated=False, suite=keys))
    idle_since = dict[int, float]()
    for turn in run.turns[0]:
        if turn.state is WorkerState.IDLE:
            idle_since[turn.worker] = turn.at_s
        elif turn.state is WorkerState.SWITCHING and turn.worker in idle_since:
            assert turn.at_s >= idle_since.pop(turn.worker) + 1.0
    assert lent(run, 0)
    after = run.steps[1].began_s
    returned = [turn for turn in run.turns[1] if turn.at_s < after + 0.2 and turn.state is WorkerState.ROLLOUT]
    assert len({turn.worker for turn in returned}) == 4, "all take their devices back for the next step"
    assert run.state_s(WorkerState.TRAINING) > 0.0


def test_the_number_of_trainers_is_capped() -> None:
    keys = SuiteKeys(spot=LendingPolicy(settle_s=0.5, max_trainers=1))
    run = simulate([TAILED] * 2, scenario(8, suite=keys))
    training = set[int]()
    for turn in (turn for turns in run.turns for turn in turns):
        training.discard(turn.worker)
        if turn.state is WorkerState.TRAINING:
            training.add(turn.worker)
        assert len(training) <= 1


def test_devices_of_a_colocated_trainer_are_not_lent_while_it_learns() -> None:
    one = simulate([TAILED], scenario(learn_s=50.0)).steps[0]
    assert one.by_state[WorkerState.TRAINER] == pytest.approx(4 * 50.0, rel=0.01)
    apart = simulate([TAILED], scenario(learn_s=50.0, colocated=False)).steps[0]
    assert WorkerState.TRAINER not in apart.by_state
    assert apart.by_state[WorkerState.TRAINING] > 10.0


def test_a_drafter_is_published_after_learning_and_makes_rollouts_faster() -> None:
    keys = SuiteKeys(engine=EngineKeys(arms=("off", "chain-3", "chain-7")))
    run = simulate([TAILED] * 4, scenario(suite=keys))
    assert run.publications
    assert run.steps[0].drafter >= 1
    assert run.steps[-1].quality > 0.7
    assert run.steps[-1].accept_length > 2.0
    assert run.steps[-1].rollout_s < 0.6 * simulate([TAILED], scenario().plain).rollout_s


def test_updates_age_a_drafter_that_nobody_trains() -> None:
    keys = SuiteKeys(lending=False)
    steps = [step([200] * 8)] * 3
    run = simulate(steps, scenario(suite=keys, drafter_tokens=200_000.0))
    assert [one.quality for one in run.steps] == pytest.approx([0.74, 0.73, 0.72])
    assert run.publications == ()


def test_more_requests_than_slots_wait_and_none_is_lost() -> None:
    run = simulate([step([50] * 100)], scenario(2, slots=4).plain)
    assert run.steps[0].tokens == 5000
    rounds = 100 / 8 * 50
    assert run.rollout_s >= rounds * 0.01


def test_a_small_cache_makes_requests_wait() -> None:
    roomy = simulate([step([500] * 8)], scenario(1).plain)
    small = simulate([step([500] * 8)], scenario(1, kv_room=1500).plain)
    assert small.rollout_s > 1.5 * roomy.rollout_s
    assert small.steps[0].responses == 8


def test_requests_of_later_arrive_later() -> None:
    late = TraceStep(
        samples=(
            TraceSample(prompt=0, prompt_tokens=1, tokens=10),
            TraceSample(prompt=1, prompt_tokens=1, tokens=10, after_s=3.0),
        )
    )
    run = simulate([late], scenario(1).plain)
    assert run.rollout_s == pytest.approx(3.0 + 10 * 0.01, rel=0.01)


def test_a_share_of_rollouts_gives_the_duration_of_learning() -> None:
    found = with_rollout_share([TAILED], scenario(), 0.8)
    run = simulate([TAILED], found.plain)
    assert run.rollout_s / run.seconds == pytest.approx(0.8)


def test_both_sides_are_compared_in_two_processes() -> None:
    trace = RunTrace(source="test", steps=(TAILED,) * 3, cap=4000)
    told = list[int]()
    found = compare(trace, scenario(), progress=told.append)
    assert told == [1, 2, 3]
    assert found.speedup == pytest.approx(found.without.seconds / found.with_suite.seconds)
    assert found.without.steps == simulate(trace.steps, scenario().plain).steps


def test_logging_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    simulate([TAILED], scenario())
    assert not structlog.is_configured()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("name", [name for name, _ in costs().figures()])
def test_any_cost_may_be_nothing(name: str) -> None:
    steps = [step([40, 60, 900])] * 2
    run = simulate(steps, scenario(2, costs=costs().replaced(**{name: 0.0})))
    assert [one.responses for one in run.steps] == [3, 3]


def test_a_run_begins_with_the_drafter_it_is_given() -> None:
    steps = [step([60, 400, 900])]
    made = {"accept_public": 0.8, "accept_start": 0.3}
    run_of = {
        name: simulate(steps, scenario(2, costs=costs(**made), **keys))
        for name, keys in (("none", {}), ("public", {"public_drafter": True}), ("trained", {"drafter_tokens": 1e9}))
    }
    lengths = {name: run.steps[0].accept_length for name, run in run_of.items()}
    assert lengths["none"] < lengths["public"] < lengths["trained"]


def test_prompts_with_several_samples_have_longer_ngrams() -> None:
    found = costs(ngram_accept=0.5, ngram_alone_accept=0.0)
    keys = SuiteKeys(lending=False)
    several, one = (
        simulate([step([400] * 4, group=group)], scenario(1, costs=found, suite=keys)).steps[0].accept_length
        for group in (4, 1)
    )
    assert several > 1.2
    assert one == pytest.approx(1.0)


def test_without_ngrams_only_drafters_draft() -> None:
    arms = scenario().without_ngrams.suite.engine.arms
    assert arms is not None
    assert "ngram-5" not in arms
    assert "chain-3" in arms
