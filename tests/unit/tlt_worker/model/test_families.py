"""Which models are run, told from config.json."""

from pathlib import Path
from typing import Any

import pytest

from tests.families import TYPES, config_of, stated
from tests.unit.tlt_worker.model.tiny import change, write
from tlt_common.errors import ConfigError
from tlt_worker.engine_config import EngineConfig
from tlt_worker.model.requirements import family_of, max_context, require_runnable

ENGINE = EngineConfig()


@pytest.mark.parametrize("family", TYPES)
def test_the_served_families_are_run(family: str) -> None:
    assert family_of(stated(family)).model_type == family
    assert require_runnable(stated(family), ENGINE) is family_of(stated(family))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantization_config": {"quant_method": "fp8"}}, "it is quantized (fp8); accepted: a Llama"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "it is quantized (gptq)"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "quantized (bitsandbytes)"),
        ({"compression_config": {"format": "pack-quantized"}}, "quantized (compression_config)"),
        ({"architectures": ["MistralForCausalLM"], "model_type": "mistral"}, "a MistralForCausalLM of model_type"),
        ({"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}, "a Gemma3ForCausalLM"),
        ({"architectures": ["MixtralForCausalLM"], "num_local_experts": 8}, "a mixture of experts"),
        ({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3"}, "a DeepseekV3ForCausalLM"),
        ({"architectures": ["Qwen2_5_VLForConditionalGeneration"], "vision_config": {}}, "a multimodal model"),
        ({"architectures": ["BertForMaskedLM"], "model_type": "bert"}, "without a language head"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "without a language head"),
        ({"architectures": ["LlamaModel"]}, "without a language head"),
        ({"architectures": ["T5ForConditionalGeneration"], "is_encoder_decoder": True}, "accepted: a Llama"),
        ({"architectures": ["LlamaForCausalLMEagle3"]}, "a drafter, for --drafter"),
        ({"architectures": ["BaichuanForCausalLM"], "auto_map": {"AutoModel": "x.y"}}, "a model with code of its own"),
        ({"architectures": None}, "names no architecture"),
        ({"architectures": ["LlamaForCausalLM", "Other"]}, "accepted: a Llama"),
        ({"architectures": "LlamaForCausalLM"}, "accepted: a Llama"),
        ({"model_type": "mistral"}, "a LlamaForCausalLM of model_type 'mistral'"),
        ({"hidden_size": "32"}, "hidden_size in its config.json is '32'"),
        ({"rms_norm_eps": "1e-6"}, "rms_norm_eps in its config.json is '1e-6'; accepted: a valid number"),
        ({"dtype": "bfloat17"}, "dtype in its config.json is 'bfloat17'; accepted: 'bfloat16', 'float16' or 'float32'"),
        ({"bos_token_id": "<s>"}, "bos_token_id in its config.json is '<s>'; accepted: a valid integer"),
        ({"tie_word_embeddings": None}, "tie_word_embeddings in its config.json is None; accepted: a valid boolean"),
        ({"num_hidden_layers": 0}, "num_hidden_layers in its config.json is 0"),
        ({"max_position_embeddings": None}, "max_position_embeddings in its config.json is None"),
        ({"num_key_value_heads": 3}, "not a multiple of its 3 key-value heads"),
        ({"head_dim": 7}, "its head_dim is 7; accepted: an even number"),
        (
            {"head_dim": None, "num_attention_heads": 6, "num_key_value_heads": 6},
            "not a multiple of its 6 attention heads",
        ),
        ({"hidden_act": "gelu"}, "its hidden_act is 'gelu'"),
        ({"mlp_bias": True}, "its mlp_bias is True, which SGLang and transformers do not both follow"),
        ({"bias": True}, "its bias is True, which SGLang and transformers do not both follow"),
        ({"rope_is_neox_style": False}, "rope_is_neox_style"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "rope type is 'dynamic'"),
        ({"rope_parameters": {"rope_type": "longrope", "rope_theta": 1e4}}, "rope type is 'longrope'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "has no factor"),
        ({"rope_parameters": "yarn"}, "cannot be read"),
        ({"layer_types": ["full_attention", "chunked_attention"]}, "sliding window of None tokens"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}, "rope_parameters": None}, "rope type is 'dynamic'"),
    ],
)
def test_a_model_that_is_not_run_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        require_runnable(stated("llama", **options), ENGINE)
    assert message in refusal.value.message
    assert refusal.value.field == "model"


@pytest.mark.parametrize(
    ("options", "context", "runs"),
    [
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0}, None, False),
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 1}, None, False),
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 2}, None, True),
        ({"use_sliding_window": True, "sliding_window": 32, "max_window_layers": 0}, 32, True),
        ({"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0}, None, True),
        ({"use_sliding_window": False, "sliding_window": 32}, None, True),
    ],
)
def test_a_sliding_window_is_refused_where_it_would_matter(
    options: dict[str, Any], context: int | None, runs: bool
) -> None:
    config = config_of("qwen2", **options).to_dict()
    if runs:
        require_runnable(config, EngineConfig(context_length=context))
    else:
        with pytest.raises(ConfigError, match="sliding window of 32 tokens"):
            require_runnable(config, EngineConfig(context_length=context))


def test_a_size_whose_default_depends_on_the_family_must_be_stated() -> None:
    with pytest.raises(ConfigError, match=r"head_dim in its config\.json is None"):
        require_runnable(stated("qwen3", head_dim=None), ENGINE)


def test_ranks_must_divide_the_model() -> None:
    with pytest.raises(ConfigError, match=r"tensor_parallel is 3; accepted .*: 1, 2, 4$") as refusal:
        require_runnable(stated("llama"), EngineConfig(tensor_parallel=3))
    assert refusal.value.field == "engine.tensor_parallel"


def test_a_context_beyond_the_models_positions_is_refused() -> None:
    with pytest.raises(ConfigError, match="accepted: 2 to 64") as refusal:
        require_runnable(stated("llama"), EngineConfig(context_length=65))
    assert refusal.value.field == "engine.context_length"


def test_a_stretched_rope_has_as_many_positions_as_it_says() -> None:
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e4, "original_max_position_embeddings": 64}
    assert max_context(stated("llama", rope_parameters=rope)) == 256
    assert max_context(stated("llama", rope_parameters=rope, max_position_embeddings=256)) == 256


def test_changes_of_a_written_configuration_are_seen(tmp_path: Path) -> None:
    change(write(tmp_path), architectures=["GPT2LMHeadModel"])
    assert "GPT2LMHeadModel" in (tmp_path / "config.json").read_text()


def test_an_unlisted_model_is_served_only_if_that_is_allowed() -> None:
    config = stated("llama", architectures=["Ernie4_5ForCausalLM"], model_type="ernie4_5")
    with pytest.raises(ConfigError, match=r"Llama.*GptOssForCausalLM checkpoint .* engine\.allow_unlisted"):
        require_runnable(config, ENGINE)
    brave = EngineConfig(allow_unlisted=True)
    assert require_runnable(config, brave) is None
    with pytest.raises(ConfigError, match="hidden_size in its config"):
        require_runnable({**config, "hidden_size": None}, brave)
    with pytest.raises(ConfigError, match="quantized"):
        require_runnable({**config, "quantization_config": {"quant_method": "fp8"}}, brave)


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("qwen3_moe", {"num_experts_per_tok": 9}, "num_experts_per_tok in its config.json is 9; accepted: 1 to 8"),
        ("qwen3_moe", {"num_experts_per_tok": 0}, "num_experts_per_tok in its config.json is 0; accepted: 1 to 8"),
        ("qwen3_moe", {"num_experts": 16}, "num_local_experts in its config.json is 8; accepted: 16"),
        ("qwen3_moe", {"num_local_experts": "8"}, "num_experts or num_local_experts in its config.json is '8'"),
        ("qwen3_moe", {"moe_intermediate_size": None}, "moe_intermediate_size in its config.json is None"),
        ("qwen3_moe", {"decoder_sparse_step": 0}, "its decoder_sparse_step is 0"),
        ("glm4_moe", {"first_k_dense_replace": 2}, "none of its layers has experts"),
        ("glm4_moe", {"n_routed_experts": 0}, "n_routed_experts in its config.json is 0"),
        ("glm4_moe", {"n_shared_experts": -1}, "n_shared_experts in its config.json is -1"),
        ("gpt_oss", {"swiglu_limit": "7"}, "swiglu_limit in its config.json is '7'"),
    ],
)
def test_a_mixture_that_contradicts_itself_is_refused(family: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        require_runnable(stated(family, **options), ENGINE)
    assert message in refusal.value.message


def test_ranks_must_divide_the_experts() -> None:
    with pytest.raises(ConfigError, match=r"tensor_parallel is 3; .* MLPs of 24, 64: 1, 2, 4$"):
        require_runnable(stated("qwen3_moe"), EngineConfig(tensor_parallel=3))
