"""Which ropes mean the same to SGLang, which serves them, and to transformers, which trains them."""

from typing import Any

import pytest

from tlt_common.drafter.rope import rope_parameters, rope_refusal

YARN = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 32768}
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 5e5,
    "original_max_position_embeddings": 8192,
}  # fmt: skip


@pytest.mark.parametrize(
    "rope",
    [
        {},
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 2},
        LLAMA3,
        YARN,
        {**YARN, "attention_factor": 1.138629436},
        {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0},
        {**YARN, "attn_factor": 1.0, "beta_fast": None},
    ],
)
def test_ropes_that_both_compute_alike_are_run(rope: dict[str, Any]) -> None:
    assert rope_refusal(rope_parameters({"rope_parameters": rope, "max_position_embeddings": 131072})) == ""


@pytest.mark.parametrize(
    ("rope", "reason"),
    [
        ({"rope_type": "dynamic", "factor": 2.0}, "'dynamic'; accepted: default, linear, llama3, yarn"),
        ({"type": "dynamic", "alpha": 1000.0}, "'dynamic'"),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, "'longrope'"),
        ({"rope_type": "proportional"}, "not known to both"),
        ({"rope_type": "default", "mrope_section": [16, 24, 24]}, "has mrope_section"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
        ({"rope_type": "linear"}, "has no factor"),
        ({"rope_type": "linear", "factor": "2"}, "factor is '2'"),
        ({"rope_type": "linear", "factor": 0}, "factor is 0"),
        ({**LLAMA3, "low_freq_factor": None}, "has no low_freq_factor"),
        ({**YARN, "attention_factor": 1.0}, "attention_factor is 1.0; accepted: 1.13863"),
        ({**YARN, "attn_factor": 2.0}, "attn_factor is 2.0"),
        ({**YARN, "extrapolation_factor": 0.5}, "extrapolation_factor is 0.5"),
        ({**YARN, "mscale": 0.0, "mscale_all_dim": 1.0}, "mscale is 0.0"),
        ({**YARN, "beta_fast": True}, "beta_fast is True"),
    ],
)
def test_ropes_that_are_computed_unlike_are_refused_by_name(rope: dict[str, Any], reason: str) -> None:
    assert reason in rope_refusal(rope_parameters({"rope_parameters": rope, "max_position_embeddings": 131072}))


def test_the_original_context_is_completed_like_in_transformers() -> None:
    rope = {"type": "yarn", "factor": 4.0}
    assert (
        rope_parameters({"rope_scaling": rope, "max_position_embeddings": 64})["original_max_position_embeddings"] == 64
    )
    outside = {"rope_scaling": rope, "max_position_embeddings": 64, "original_max_position_embeddings": 16}
    assert rope_parameters(outside)["original_max_position_embeddings"] == 16
