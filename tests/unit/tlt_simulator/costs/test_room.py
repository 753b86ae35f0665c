"""What fits onto a worker."""

import pytest

from tlt_common.errors import ConfigError
from tlt_simulator.costs.room import worker_room


def test_a_cache_is_what_the_plan_leaves() -> None:
    room = worker_room("h100", "7b", slots=64)
    assert room.slots == 64
    assert 500_000 < room.kv_room < 1_200_000
    assert "chain-3" in room.arms


def test_a_share_of_the_memory_makes_the_cache_smaller() -> None:
    assert worker_room("h100", "7b", gpu_memory=0.4).kv_room < worker_room("h100", "7b").kv_room


def test_a_worker_that_trains_has_a_smaller_cache() -> None:
    assert worker_room("h100", "7b").kv_room < worker_room("h100", "7b", trains=False).kv_room


@pytest.mark.parametrize(("card", "model", "gpus"), [("h100", "70b", 1), ("a100-80", "32b", 1)])
def test_a_model_that_does_not_fit_is_refused_with_the_reason_of_the_plan(card: str, model: str, gpus: int) -> None:
    with pytest.raises(ConfigError, match="GiB") as refused:
        worker_room(card, model, gpus)
    assert f"{model} on {gpus} x {card} does not fit" in str(refused.value)
    assert "larger engine.tensor_parallel" in str(refused.value)


@pytest.mark.parametrize(("card", "model", "gpus"), [("v100", "7b", 1), ("h100", "7b", 3)])
def test_what_no_plan_is_made_for_is_refused(card: str, model: str, gpus: int) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        worker_room(card, model, gpus)
