"""What is served is what is trained: SGLang's positions are those of transformers, for every rope that is accepted."""

from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from tlt_common.drafter.rope import rope_parameters, rope_refusal

HEAD, POSITIONS = 32, 128

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
ROPES: list[dict[str, Any]] = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 4.0},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
     "original_max_position_embeddings": 64},
    YARN,
    {"rope_type": "yarn", "factor": 2.0},
    {**YARN, "mscale": 0.7, "mscale_all_dim": 0.3},
    {**YARN, "mscale": 0.7},
    {**YARN, "beta_fast": 16.0, "beta_slow": 2.0, "truncate": False},
    {**YARN, "attention_factor": 1.1386294361},
]  # fmt: skip
UNLIKE: list[dict[str, Any]] = [
    {"rope_type": "dynamic", "factor": 4.0},
    {**YARN, "attention_factor": 2.0},
    {**YARN, "attn_factor": 2.0},
    {**YARN, "extrapolation_factor": 0.5},
]


def configured(rope: dict[str, Any]) -> LlamaConfig:
    return LlamaConfig(
        hidden_size=2 * HEAD, num_attention_heads=2, head_dim=HEAD, max_position_embeddings=POSITIONS,
        rope_parameters={"rope_theta": 10_000.0, **rope},
    )  # fmt: skip


def trained(config: LlamaConfig) -> Tensor:
    rotary = LlamaRotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1, POSITIONS, 2 * HEAD), torch.arange(POSITIONS)[None])
    return torch.cat((cos[0, :, : HEAD // 2], sin[0, :, : HEAD // 2]), dim=-1)


def served(config: LlamaConfig) -> Tensor:
    from sglang.srt.layers.rotary_embedding import base, get_rope

    parameters: Any = config.rope_parameters
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_is_cpu", True)  # as with SGLANG_USE_CPU_ENGINE; else it looks for a GPU's kernels
        rope = get_rope(HEAD, HEAD, POSITIONS, parameters["rope_theta"], True, dict(parameters), dtype=torch.float32)
    return rope.cos_sin_cache[:POSITIONS].float()  # type: ignore[no-any-return] # SGLang is untyped


@pytest.mark.parametrize("rope", ROPES)
def test_an_accepted_rope_is_served_as_it_is_trained(rope: dict[str, Any]) -> None:
    config = configured(rope)
    assert rope_refusal(rope_parameters({"rope_parameters": rope, "max_position_embeddings": POSITIONS})) == ""
    torch.testing.assert_close(served(config), trained(config), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rope", UNLIKE)
def test_a_refused_rope_would_be_served_unlike_it_is_trained(rope: dict[str, Any]) -> None:
    config = configured(rope)
    assert rope_refusal(rope_parameters({"rope_parameters": rope, "max_position_embeddings": POSITIONS}))
    assert not torch.allclose(served(config), trained(config), rtol=1e-3, atol=1e-3)
