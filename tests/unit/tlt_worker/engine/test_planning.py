"""From an engine's configuration to its plan."""

import json
from typing import Any

import pytest

from tlt_common.domain.arm import OFF, chain, tree
from tlt_common.errors import ConfigError
from tlt_worker.capacity.memory import GIB
from tlt_worker.engine import planning
from tlt_worker.engine.device import CPU, CUDA
from tlt_worker.engine.planning import plan_of
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
    plan = plan_of(config, CUDA, CONFIG)
    assert 0 < plan.plan.bytes <= GIB
    assert set(plan.captures(OFF)) == {"verify"}
    assert set(plan.captures(chain(3))) == {"verify", "draft", "extend"}


def test_attention_backends_with_work_space_of_their_own_leave_less_for_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "gpu_memory", lambda: [80 * GIB])
    config = EngineConfig(arms=ARMS, graph_bytes=2 * GIB)
    monkeypatch.setattr(planning, "gpu_generations", lambda: [9])
    hopper = plan_of(config, CUDA, CONFIG)
    monkeypatch.setattr(planning, "gpu_generations", lambda: [8])
    ampere = plan_of(config, CUDA, CONFIG)
    assert (hopper.backends, ampere.backends) == (0, 3 * planning.FLASHINFER_BYTES)
    assert ampere.plan.bytes + ampere.backends <= 2 * GIB
    assert ampere.plan.bytes < hopper.plan.bytes


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
