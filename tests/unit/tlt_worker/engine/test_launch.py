"""The device profile in SGLang's arguments, of the suite's engine and of a stock one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.tlt_worker.capacity import arms as some
from tlt_bench.engines.stock import StockEngine
from tlt_common.domain.arm import Arm
from tlt_worker.capacity.attention import Attention
from tlt_worker.capacity.profile import Accelerator, DeviceProfile, profile_of
from tlt_worker.engine.device import CPU
from tlt_worker.engine.launch import server_arguments
from tlt_worker.engine_config import CPU_ARMS, CUDA_ARMS, EngineConfig
from tlt_worker.experiment import NONE

AMPERE, HOPPER, BLACKWELL, CONSUMER = (Accelerator(kind="cuda", generation=major) for major in (8, 9, 10, 12))
accelerators = st.sampled_from([CPU.accelerator, AMPERE, HOPPER, BLACKWELL, CONSUMER])


def config_of(arms: tuple[Arm, ...] | None, **more: Any) -> EngineConfig:
    return EngineConfig(arms=None if arms is None else tuple(arm.name for arm in arms), **more)


def arguments_of(config: EngineConfig, profile: DeviceProfile) -> dict[str, Any]:
    return server_arguments(Path("/m"), config, profile, context_length=100, drafter=Path("/d"))


def stock_arguments_of(config: EngineConfig, profile: DeviceProfile) -> dict[str, Any]:
    engine = SimpleNamespace(
        config=config, model=Path("/m"), _experiment=NONE, _model_config={"max_position_embeddings": 100}
    )
    plan = SimpleNamespace(profile=profile, resolved=lambda config: config)
    return StockEngine.arguments(engine, plan)  # type: ignore[arg-type]


def test_routed_experts_need_kernels_that_tell_what_they_chose() -> None:
    for accelerator in (CPU.accelerator, HOPPER, BLACKWELL):
        profile = profile_of(EngineConfig(), accelerator)
        asked = arguments_of(EngineConfig(return_routed_experts=True), profile)
        assert (asked["enable_return_routed_experts"], asked["moe_runner_backend"]) == (True, "triton")
        assert "enable_return_routed_experts" not in arguments_of(EngineConfig(), profile)


TREES = ("off", "chain-3", "tree-3x4-12")


@pytest.mark.parametrize(
    ("accelerator", "arms", "backend", "page_size"),
    [
        (CPU.accelerator, None, "intel_amx", None),
        (CPU.accelerator, TREES, "intel_amx", None),
        (AMPERE, None, "flashinfer", 1),
        (AMPERE, ("chain-3",), "flashinfer", None),
        (HOPPER, None, "fa3", 1),
        (HOPPER, ("chain-3",), "fa3", None),
        (BLACKWELL, None, "trtllm_mha", None),
        (BLACKWELL, TREES, "flashinfer", 1),
        (CONSUMER, TREES, "flashinfer", 1),
    ],
)
def test_device_and_arms_decide_the_backend(
    accelerator: Accelerator, arms: tuple[str, ...] | None, backend: str, page_size: int | None
) -> None:
    profile = profile_of(EngineConfig(arms=arms), accelerator)
    assert (profile.attention, profile.page_size) == (backend, page_size)


def test_default_trees_never_cost_a_device_its_own_backend() -> None:
    for accelerator in (AMPERE, HOPPER, BLACKWELL, CONSUMER):
        profile = profile_of(EngineConfig(), accelerator)
        assert profile.attention is accelerator.stock
        assert not profile.warnings
        assert profile.arms == tuple(a for a in CUDA_ARMS if a.topk == 1 or accelerator.stock.verifies_trees)
    assert profile_of(EngineConfig(), CPU.accelerator).arms == CPU_ARMS


def test_trees_that_cost_a_device_its_own_backend_are_told_with_the_key() -> None:
    (warning,) = profile_of(EngineConfig(arms=TREES), BLACKWELL).warnings
    assert "engine.arms names trees (tree-3x4-12), which trtllm_mha cannot verify" in warning


@given(accelerators, st.one_of(st.none(), some.sets.filter(len)))
def test_launch_and_profile_agree(accelerator: Accelerator, arms: tuple[Arm, ...] | None) -> None:
    config = config_of(arms)
    profile = profile_of(config, accelerator)
    arguments = arguments_of(config, profile)
    assert arguments["device"] == accelerator.kind
    assert arguments["attention_backend"] == profile.attention
    assert arguments.get("page_size") == profile.page_size
    assert arguments["speculative_num_draft_tokens"] == profile.width
    assert arguments["context_length"] == 100 + profile.width, "a request may fill the context though a round drafts"
    assert profile.attention.verifies_trees or all(arm.topk == 1 for arm in profile.arms)


@given(accelerators, st.one_of(st.none(), some.sets.filter(len)))
def test_stock_sglang_runs_as_its_users_run_it(accelerator: Accelerator, arms: tuple[Arm, ...] | None) -> None:
    """Whatever arms the other side of a benchmark has, SGLang chooses its backend as if there were none."""
    config = config_of(arms)
    profile = profile_of(config, accelerator)
    stock, ours = stock_arguments_of(config, profile), arguments_of(config, profile)
    on_cpu = accelerator.kind == "cpu"
    assert stock.get("attention_backend") == (Attention.AMX if on_cpu else None)
    assert "page_size" not in stock
    assert "disable_decode_cuda_graph" not in stock
    assert not [name for name in stock if name.startswith("speculative_")]
    differing = {name for name in stock if stock[name] != ours[name]}
    assert differing <= {"max_total_tokens"}


def test_arguments_fit_the_device() -> None:
    config = EngineConfig(max_running=4, arms=("off", "chain-3", "chain-7"))
    cpu = arguments_of(config, profile_of(config, CPU.accelerator))
    assert cpu["max_total_tokens"] == 4 * 116
    cuda = arguments_of(config, profile_of(config, HOPPER))
    assert cuda["max_total_tokens"] is None
    assert (cuda["speculative_num_steps"], cuda["speculative_num_draft_tokens"]) == (7, 8)
    assert cuda["speculative_use_rejection_sampling"]


def test_an_engine_is_launched_as_a_chain_as_wide_as_its_widest_arm() -> None:
    config = EngineConfig(arms=("off", "chain-3-top1", "tree-3x4-8"))
    arguments = arguments_of(config, profile_of(config, CPU.accelerator))
    assert (arguments["speculative_num_steps"], arguments["speculative_eagle_topk"]) == (11, 1)
    assert arguments["speculative_num_draft_tokens"] == 12
    assert not arguments["speculative_use_rejection_sampling"], "no arm of these samples its drafts"
