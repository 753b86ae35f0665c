"""Which TRL is installed is told by what it has. The modules here are fakes of its layouts."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from tlt_common.errors import InvalidRequestError
from tlt_common.integrations.trl.installed import async_trainer, sample_class, sample_of

OLD = "trl.experimental.async_grpo"
Layout = Callable[[dict[str, dict[str, Any]]], None]


@dataclass
class RolloutSample:
    input_ids: Any
    advantage: float
    enqueued_at: float | None = None


class WithHooks:
    def __init__(self, model: Any, *, rollout_worker: Any = None, weight_transfer: Any = None) -> None: ...


class WithoutHooks:
    def __init__(self, model: Any) -> None: ...


class AsyncGRPOConfig: ...


@pytest.fixture
def installed() -> Iterator[Layout]:
    """Install modules with these attributes in place of TRL."""
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "trl"}

    def install(modules: dict[str, dict[str, Any]]) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "trl"]:
            del sys.modules[name]
        for name, content in modules.items():
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                package = sys.modules.setdefault(".".join(parts[:end]), ModuleType(".".join(parts[:end])))
                package.__path__ = []
            vars(sys.modules[name]).update(content)

    yield install
    install({})
    sys.modules.update(before)


def test_a_trainer_below_experimental_is_found(installed: Layout) -> None:
    trainers = {"AsyncGRPOTrainer": WithHooks, "AsyncGRPOConfig": AsyncGRPOConfig}
    installed({"trl": {}, OLD: trainers, f"{OLD}.async_rollout_worker": {"RolloutSample": RolloutSample}})
    assert async_trainer() == (WithHooks, AsyncGRPOConfig)
    assert sample_class() is RolloutSample


def test_a_stable_trainer_is_found_although_the_old_place_warns(installed: Layout) -> None:
    trainers = {"AsyncGRPOTrainer": WithHooks, "AsyncGRPOConfig": AsyncGRPOConfig}
    installed({"trl": trainers, OLD: {}, "trl.trainer.async_grpo_trainer": {"RolloutSample": RolloutSample}})
    assert async_trainer() == (WithHooks, AsyncGRPOConfig)
    assert sample_class() is RolloutSample


def test_a_trainer_that_takes_no_rollouts_is_refused_with_the_way_out(installed: Layout) -> None:
    installed({"trl": {"AsyncGRPOTrainer": WithoutHooks, "AsyncGRPOConfig": AsyncGRPOConfig}})
    with pytest.raises(
        InvalidRequestError, match=r"takes no rollout_worker and no weight_transfer; .*vllm_server_base_url"
    ):
        async_trainer()


def test_a_trl_without_the_trainer_is_refused_by_its_places(installed: Layout) -> None:
    installed({"trl": {}})
    with pytest.raises(InvalidRequestError, match=r"has no RolloutSample in trl\.trainer\.async_grpo_trainer or"):
        sample_class()


def test_a_sample_gets_the_fields_that_it_has() -> None:
    assert sample_of(RolloutSample, input_ids=[1], advantage=0.5, model_version=3) == RolloutSample([1], 0.5)


def test_a_sample_that_requires_more_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match="requires advantage"):
        sample_of(RolloutSample, input_ids=[1])
