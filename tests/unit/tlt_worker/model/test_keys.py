"""Every key of a config.json is tried, fixed, informative, or refused by its name."""

from typing import Any

import pytest
from transformers import PretrainedConfig

from tests.families import TYPES, config_of, others, stated, written
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.families import FAMILIES
from tlt_worker.model.keys import INFORMATIVE, TRIED
from tlt_worker.model.requirements import require_runnable

ENGINE = EngineConfig()
ROWS = {row.model_type: row for row in FAMILIES.values()}
SAME = "max_position_embeddings", "layer_types", "max_window_layers", "sliding_window", "use_sliding_window"
"""Keys with checks of their own, of which another value is refused, or limits a context."""


def refusal(config: dict[str, Any]) -> str:
    try:
        require_runnable(config, ENGINE)
    except ConfigError as error:
        return error.message
    return ""


def changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return [0] if isinstance(value, list) else "another"


@pytest.mark.parametrize("family", TYPES)
def test_a_key_of_transformers_class_is_tried_with_two_values_or_refused(family: str) -> None:
    first, second, row = config_of(family).to_dict(), config_of(family, **others(family)).to_dict(), ROWS[family]
    tried = (TRIED | {*row.tried}) - {*row.fixed}
    untried = {name for name in tried & {*first} if first[name] == second.get(name)}
    assert not untried
    for name in {*first} - {*PretrainedConfig().to_dict()} - tried - INFORMATIVE - {*SAME}:
        message = refusal(stated(family, **{name: changed(first[name])}))
        assert name in message, f"{name} of {row.title} is neither tried nor refused"


@pytest.mark.parametrize("family", TYPES)
def test_every_key_that_is_said_to_be_tried_has_another_value(family: str) -> None:
    aliases = {"num_experts": "num_local_experts"}
    tried = {aliases.get(name, name) for name in (*TRIED, *ROWS[family].tried)}
    config = config_of(family, **others(family)).to_dict()
    missing = tried - {*config} - {"partial_rotary_factor", "attention_bias", "head_dim"}  # of some only
    assert not missing


@pytest.mark.parametrize("family", TYPES)
def test_what_transformers_writes_is_accepted_with_both_values(family: str) -> None:
    assert refusal(written(family)) == ""
    assert refusal(written(family, **others(family))) == ""


@pytest.mark.parametrize("family", TYPES)
@pytest.mark.parametrize("value", [30.0, "relu", True, 1, [4, 4], {"type": "x"}], ids=repr)
def test_a_key_that_nobody_tried_is_refused_by_name(family: str, value: object) -> None:
    assert f"its logit_softcap is {value!r}, a key not tested" in refusal(stated(family, logit_softcap=value))


@pytest.mark.parametrize("value", [None, False, "", [], {}], ids=repr)
def test_a_key_that_asks_for_nothing_passes(value: object) -> None:
    assert refusal(stated("llama", logit_softcap=value, _some_note=1)) == ""


@pytest.mark.parametrize(
    ("family", "options", "name"),
    [
        ("qwen3_moe", {"mlp_only_layers": [0]}, "mlp_only_layers"),
        ("qwen3_moe", {"mlp_only_layers": [1]}, "mlp_only_layers"),
        ("qwen3_moe", {"decoder_sparse_step": 2}, "decoder_sparse_step"),
        ("qwen3_moe", {"use_sliding_window": True, "sliding_window": 64}, "use_sliding_window"),
        ("qwen3_moe", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("glm4_moe", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("gpt_oss", {"tie_word_embeddings": True}, "tie_word_embeddings"),
        ("qwen3_moe", {"shared_expert_intermediate_size": 64}, "shared_expert_intermediate_size"),
        ("qwen2", {"scale_emb": 12.0}, "scale_emb"),
        ("qwen2", {"head_dim": 16}, "head_dim"),
        ("mimo", {"head_dim": 16}, "head_dim"),
        ("qwen2", {"original_num_attention_heads": 2}, "original_num_attention_heads"),
        ("llama", {"rope_interleaved": True}, "rope_interleaved"),
        ("llama", {"mlp_bias": True}, "mlp_bias"),
        ("llama", {"residual_multiplier": 0.2}, "residual_multiplier"),
        ("gpt_oss", {"swiglu_alpha": 1.5}, "swiglu_alpha"),
        ("gpt_oss", {"hidden_act_alpha": 1.5}, "hidden_act_alpha"),
        ("gpt_oss", {"sliding_window": None}, "sliding_window"),
        ("gpt_oss", {"experts_per_token": 4}, "experts_per_token"),
        ("glm4_moe", {"n_group": 3}, "n_group"),
        ("glm4_moe", {"n_group": 8}, "n_group"),
        ("glm4_moe", {"topk_group": 2}, "topk_group"),
        ("glm4_moe", {"n_shared_experts": 0}, "n_shared_experts"),
        ("glm4_moe", {"num_local_experts": 16}, "num_local_experts"),
    ],
)
def test_what_the_engine_ignores_is_refused(family: str, options: dict[str, Any], name: str) -> None:
    assert name in refusal(stated(family, **options))


REAL: dict[str, dict[str, Any]] = {
    "llama": {
        "_name_or_path": "meta-llama/Llama-2-7b-hf", "max_length": 4096, "pretraining_tp": 2, "use_cache": False,
        "is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"kv_cache_dtype": {}},
        "unsloth_fixed": True, "unsloth_version": "2025.9.1", "_attn_implementation_autoset": True,
    },
    "qwen2": {"use_mrope": False, "max_window_layers": 21, "use_sliding_window": False, "sliding_window": 4096},
    "qwen3": {"attention_dropout": 0.1, "temperature": 0.6, "top_p": 0.95, "do_sample": True},
    "qwen3_moe": {
        "norm_topk_prob": True, "router_aux_loss_coef": 0.001, "max_window_layers": 48, "qkv_bias": False,
        "shared_expert_intermediate_size": 0, "use_qk_norm": True, "output_router_logits": True,
    },
    "glm4_moe": {"rope_scaling": None, "routed_scaling_factor": 2.5, "eos_token_id": [1, 3], "use_qk_norm": False},
    "mimo": {"auto_map": {"AutoConfig": "configuration_mimo.MiMoConfig"}, "attention_bias": True, "use_mrope": False},
    "gpt_oss": {"experts_per_token": 2, "initial_context_length": 4096, "router_aux_loss_coef": 0.9},
}  # fmt: skip
"""What published checkpoints say besides what transformers writes today."""


@pytest.mark.parametrize("family", TYPES)
def test_what_published_checkpoints_say_is_accepted(family: str) -> None:
    assert refusal(stated(family, **REAL[family])) == ""


def test_fixed_keys_of_a_family_are_not_among_those_that_are_tried() -> None:
    for row in FAMILIES.values():
        assert not {*row.fixed} & {*row.tried}
