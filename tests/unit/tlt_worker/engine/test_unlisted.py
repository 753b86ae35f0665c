"""What is planned, and said, of a model that is not in the table of families."""

import pytest

from tests.families import stated
from tlt_common.errors import ConfigError
from tlt_worker.engine.device import CPU, CUDA
from tlt_worker.engine.planning import plan_of
from tlt_worker.engine_config import EngineConfig

UNLISTED = stated("llama", architectures=["Ernie4_5ForCausalLM"], model_type="ernie4_5")


def test_what_is_unknown_of_an_unlisted_model_is_said() -> None:
    (warning,) = plan_of(EngineConfig(allow_unlisted=True, arms=("off", "chain-3")), CPU, UNLISTED).warnings
    assert "engine.allow_unlisted serves ['Ernie4_5ForCausalLM']" in warning
    assert "untested" in warning
    assert plan_of(EngineConfig(arms=("off", "chain-3")), CPU, stated("llama")).warnings == ()


def test_memory_of_an_unlisted_model_on_a_gpu_is_the_users_to_say() -> None:
    with pytest.raises(
        ConfigError, match=r"engine\.gpu_memory is null, .* is not planned; accepted: a fraction"
    ) as refusal:
        plan_of(EngineConfig(allow_unlisted=True), CUDA, UNLISTED)
    assert refusal.value.field == "engine.gpu_memory"
