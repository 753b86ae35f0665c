"""From an engine's configuration to its plan."""

import json
from dataclasses import replace
from typing import Any, Literal

import pytest

from tlt_common.domain.arm import OFF, chain, tree
from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.errors import ConfigError
from tlt_worker.capacity.memory.memory import GIB
from tlt_worker.engine import device, planning
from tlt_worker.engine.device import CPU, CUDA
from tlt_worker.engine.planning import log_held, plan_of, trainer_share
from tlt_worker.engine_config import EngineConfig
from tlt_worker.link.settings import LinkSettings

CONFIG: dict[str, Any] = {
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "max_position_embeddings": 4096,
}
ARMS = ("off", "chain-3", "tree-8x8-64")


def test_a_cpu_captures_nothing_and_limits_arms_by_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "machine_memory", lambda: 16 * GIB)
    plan = plan_of(EngineConfig(arms=ARMS, max_running=32), CPU, CONFIG)
    assert not plan.plan.captures
    assert plan.max_batch[OFF] == 32
    assert plan.max_batch[tree(8, 8, 64)] < plan.max_batch[chain(3)]


def test_a_gpu_captures_within_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    config = EngineConfig(arms=ARMS, graph_bytes=GIB)
    plan = plan_of(config, replace(CUDA, generation=9), CONFIG)
    assert 0 < plan.plan.bytes <= GIB
    assert set(plan.captures(OFF)) == {"verify"}
    assert set(plan.captures(chain(3))) == {"verify", "draft", "extend"}


def test_attention_backends_with_workspaces_leave_less_for_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    shares = []
    for generation in (9, 8):
        plan = plan_of(EngineConfig(arms=ARMS), replace(CUDA, generation=generation), CONFIG)
        assert plan.division is not None
        shares.append(plan.division.gpu_memory)
    assert shares[0] > shares[1]


@pytest.mark.parametrize(
    ("generation", "dtype", "chosen"),
    [(7, None, "float16"), (8, None, "bfloat16"), (9, "float32", "float32")],
)
def test_a_gpu_serves_in_a_type_it_has(
    generation: int, dtype: Literal["float32"] | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    config = EngineConfig(dtype=dtype)
    plan = plan_of(config, replace(CUDA, generation=generation), CONFIG)
    assert (plan.profile.dtype, plan.resolved(config).dtype) == (chosen, chosen)


@pytest.mark.parametrize(("multiplies", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_a_cpu_that_would_emulate_bfloat16_serves_in_float32(
    multiplies: bool, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "multiplies_bfloat16", lambda: multiplies)
    assert plan_of(EngineConfig(), CPU, CONFIG).profile.dtype == chosen


def test_what_a_gpu_holds_is_compared_with_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    plan = plan_of(EngineConfig(arms=ARMS), replace(CUDA, generation=9), CONFIG)
    assert plan.division is not None
    planned = plan.division.table.of("weights") / GIB
    assert log_held(plan, {"weights": 1.1 * planned, "all": 70.0}) == {"weights": pytest.approx(1.1, abs=1e-3)}
    assert log_held(plan, {}) == {}
    monkeypatch.setattr(planning, "machine_memory", lambda: 16 * GIB)
    assert log_held(plan_of(EngineConfig(arms=ARMS), CPU, CONFIG), {"weights": 1.0}) == {}


def test_only_a_gpu_limits_its_trainer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    share = trainer_share(EngineConfig(), replace(CUDA, generation=9), CONFIG)
    assert share is not None
    assert 0.1 < share < 0.2
    config = EngineConfig(drafter_architecture=DrafterArchitecture.EAGLE3)
    eagle3 = trainer_share(config, replace(CUDA, generation=9), CONFIG)
    assert eagle3 is not None
    assert share < eagle3 < 0.25
    assert trainer_share(EngineConfig(), CPU, CONFIG) is None


def test_what_was_planned_reaches_the_scheduler_process() -> None:
    plan = plan_of(EngineConfig(arms=ARMS), CPU, CONFIG)
    settings = LinkSettings(
        directory="somewhere",
        engine=EngineConfig(arms=ARMS),
        graph_sizes={"chain-3": {"verify": (1, 2), "draft": ()}},
        fits_upto={arm.name: most for arm, most in plan.max_batch.items()} | {"chain-3": 2},
    )
    heard = LinkSettings.from_json(settings.to_json())
    assert json.loads(heard.to_json())["graph_sizes"] == {"chain-3": {"verify": [1, 2], "draft": []}}
    assert heard.fits(chain(3), 2)
    assert not heard.fits(chain(3), 3)
    assert heard.fits(chain(9), 1000)


def test_an_arm_that_cannot_run_is_refused_before_the_model_is_loaded() -> None:
    with pytest.raises(ConfigError, match="'tree-8x8-64' verifies 64 tokens") as refused:
        plan_of(EngineConfig(arms=ARMS, context_length=32), CPU, CONFIG)
    assert refused.value.field == "engine.arms"
