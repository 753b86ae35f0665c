"""What fits onto a worker, with the suite and without it."""

from collections.abc import Iterable
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.tlt_simulator.run.scenarios import costs, scenario, step
from tlt_common.domain.arm import Arm
from tlt_common.errors import ConfigError
from tlt_simulator.costs.model import CostModel
from tlt_simulator.costs.room import WorkerMemory, worker_memory
from tlt_simulator.run import simulate
from tlt_simulator.scenario import EngineKeys, Scenario, SuiteKeys
from tlt_simulator.sweep.keys import changed
from tlt_worker.capacity.rounds import RoundTerms
from tlt_worker.engine_config import CUDA_ARMS, EngineConfig

CONTEXT = 32_768
RUN = set[Arm]()
"""Arms of which a round has been costed."""


class RecordedTerms(RoundTerms):
    """Parts of rounds that record which arms run."""

    def round_s(self, arm: Arm, batch: float, kv_tokens: float) -> float:
        RUN.add(arm)
        return super().round_s(arm, batch, kv_tokens)


class RecordedCosts(CostModel):
    """Costs that record which arms run."""

    @property
    def terms(self) -> RoundTerms:
        return RecordedTerms(**asdict(super().terms))


def memory(model: str, gpus: int = 1, *, slots: int = 256, arms: Iterable[str] | None = None) -> WorkerMemory:
    engine = EngineConfig(
        tensor_parallel=gpus,
        dtype="bfloat16",
        max_running=slots,
        context_length=CONTEXT,
        arms=None if arms is None else tuple(arms),
    )
    return worker_memory("h100", model, engine)


def test_a_cache_is_what_the_plan_leaves() -> None:
    found = memory("7b", slots=64)
    assert 500_000 < found.kv_room < 1_200_000
    assert found.arms == tuple(arm.name for arm in CUDA_ARMS)
    assert not found.warnings


def test_without_the_suite_its_memory_is_kv_cache() -> None:
    found = memory("7b")
    assert found.plain_kv_room > found.kv_room
    undrafted = memory("7b", arms=("off",))
    assert found.kv_room < undrafted.kv_room < found.plain_kv_room, "arms, drafter and trainer take memory"


def test_arms_that_do_not_fit_are_named_with_the_key_that_keeps_them() -> None:
    found = memory("70b", 4)
    assert found.arms == ("off",)
    (said,) = [warning for warning in found.warnings if "not simulated" in warning]
    assert "chain-3" in said
    assert "worker.engine.tensor_parallel=8 (--gpus-per-worker 8)" in said
    assert memory("70b", 8).arms == tuple(arm.name for arm in CUDA_ARMS)


@settings(max_examples=10)
@given(
    model=st.sampled_from(["7b", "32b", "70b", "30b-a3b"]),
    gpus=st.sampled_from([1, 2, 4, 8]),
    slots=st.sampled_from([16, 64, 256, 1024]),
    arms=st.sampled_from([None, ("off", "chain-3"), ("chain-7", "ngram-5", "tree-8x8-64")]),
)
def test_an_arm_that_does_not_fit_never_runs(model: str, gpus: int, slots: int, arms: tuple[str, ...] | None) -> None:
    keys = SuiteKeys(engine=EngineKeys(arms=arms))
    fleet = scenario(workers=1, slots=slots).fleet.model_copy(update={"gpus": gpus})
    made: Scenario = scenario(suite=keys, costs=RecordedCosts(**dict(costs())), drafter_tokens=1e6)
    try:
        found = made.model_copy(update={"fleet": fleet}).planned("h100", model, CONTEXT)
    except ConfigError:  # the model does not fit at all
        return
    assert found.memory is not None
    assert found.fleet.kv_room == found.memory.kv_room
    assert found.plain.fleet.kv_room == found.memory.plain_kv_room
    RUN.clear()
    simulate([step([400, 300, 200, 100])], found)
    assert {arm.name for arm in RUN} <= {"off", *found.memory.arms}


def test_memory_is_planned_anew_for_other_slots_and_arms() -> None:
    made = scenario(workers=1, slots=64).planned("h100", "7b", CONTEXT)
    assert changed(made, {"fleet.slots": "256"}).fleet.kv_room < made.fleet.kv_room
    assert changed(made, {"engine.arms": "off"}).fleet.kv_room > made.fleet.kv_room
    assert changed(made, {"spot.max_trainers": "1"}).memory is made.memory


def test_a_cache_that_is_given_is_that_of_both_sides() -> None:
    made = scenario(workers=1, slots=64).planned("h100", "7b", CONTEXT, kv_room=100_000)
    again = changed(made, {"fleet.slots": "128"})
    assert {made.fleet.kv_room, made.plain.fleet.kv_room, again.fleet.kv_room} == {100_000}


@pytest.mark.parametrize(("model", "gpus"), [("70b", 1), ("32b", 1)])
def test_a_model_that_does_not_fit_is_refused_with_the_reason_of_the_plan(model: str, gpus: int) -> None:
    with pytest.raises(ConfigError, match="GiB") as refused:
        memory(model, gpus)
    assert f"{model} on {gpus} x h100 does not fit" in str(refused.value)
    assert "larger engine.tensor_parallel" in str(refused.value)


@pytest.mark.parametrize(("card", "gpus"), [("v100", 1), ("h100", 3)])
def test_what_no_plan_is_made_for_is_refused(card: str, gpus: int) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        worker_memory(card, "7b", EngineConfig(tensor_parallel=gpus, dtype="bfloat16", context_length=CONTEXT))
