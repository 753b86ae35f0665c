"""An asynchronous RL trainer: steps overlap, weights arrive while requests run, and tokens have bounded ages."""

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from tests.unit.tlt_simulator.run.scenarios import costs, scenario, step
from tlt_simulator.result import SimulatedRun
from tlt_simulator.run import simulate
from tlt_simulator.scenario import GatewayKeys, Scenario, SuiteKeys
from tlt_simulator.trace import TraceStep

AGES = (0, 1, 2, 4)
USUAL = SuiteKeys()


def steps(count: int = 16, responses: int = 32) -> tuple[TraceStep, ...]:
    chance = Random(0)
    return tuple(step([round(chance.lognormvariate(6.0, 0.8)) + 1 for _ in range(responses)]) for _ in range(count))


def asynchronous(age: int, *, learn_s: float = 2.0, suite: SuiteKeys = USUAL) -> Scenario:
    made = scenario(slots=32, learn_s=learn_s, colocated=False, drafter_tokens=1e5, suite=suite)
    return made.model_copy(update={"trainer": made.trainer.model_copy(update={"max_staleness": age})})


def runs(suite: SuiteKeys = USUAL) -> dict[int, SimulatedRun]:
    return {age: simulate(steps(), asynchronous(age, suite=suite)) for age in AGES}


def test_without_staleness_steps_are_synchronous() -> None:
    for found in simulate(steps(), asynchronous(0)).steps:
        assert found.waited_s == found.rollout_s
        assert (found.staleness, found.max_staleness) == (0.0, 0)
        assert found.generated == pytest.approx(found.tokens)
        assert found.tail_s > 0.0


def test_no_token_is_older_than_the_trainer_accepts() -> None:
    for age, run in runs().items():
        assert run.max_staleness == age
        assert all(one.max_staleness <= age and 0.0 <= one.staleness <= age for one in run.steps)


def test_more_staleness_never_takes_longer_and_some_saves_time() -> None:
    for lends in (False, True):
        seconds = [run.seconds for run in runs(SuiteKeys(lending=lends)).values()]
        assert all(after < 1.03 * before for before, after in pairwise(seconds))
        assert seconds[1] < 0.9 * seconds[0]


def test_every_step_learns_from_its_own_responses() -> None:
    for run in runs().values():
        assert [one.tokens for one in run.steps] == [sum(one.tokens for one in each.samples) for each in steps()]


def test_a_slow_learner_hides_rollouts_and_a_faster_engine_no_longer_matters() -> None:
    for keys in (USUAL, SuiteKeys(lending=False, speculation=False)):
        found = simulate(steps(), asynchronous(2, learn_s=500.0, suite=keys)).steps
        assert all(one.waited_s == 0.0 for one in found[1:])
        assert all(one.seconds == pytest.approx(501.0) for one in found[1:])


def test_every_second_of_a_device_is_accounted_for() -> None:
    for run in runs().values():
        for one in run.steps:
            assert sum(one.by_state.values()) == pytest.approx(4 * one.seconds)


def test_an_update_pauses_running_requests_and_prefills_them_again() -> None:
    base = asynchronous(1)
    slower = [base.model_copy(update={"costs": costs(**{name: 10 * value})})
              for name, value in (("update_s", 1.0), ("prefill_token_s", 1e-5))]  # fmt: skip
    for made in slower:
        before, after = simulate(steps(), base), simulate(steps(), made)
        assert after.rollout_s > 1.01 * before.rollout_s


def test_packed_requests_leave_workers_to_train_a_drafter() -> None:
    # Few requests at a time, over slots for eight times as many.
    few = tuple(replace(one, samples=one.samples[:4]) for one in steps(32))
    trained = {}
    for pack in (0, 10):
        made = asynchronous(1, suite=SuiteKeys(gateway=GatewayKeys(pack_running=pack)))
        trained[pack] = simulate(few, made).state_s("training")
    assert trained[10] > trained[0]
