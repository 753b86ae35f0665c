"""Block drafters as DFlash and DSpark are published."""

from typing import Any

import pytest

from tlt_common.drafter.architecture import DrafterArchitecture
from tlt_common.drafter.block import BlockFormat, MarkovHead
from tlt_common.drafter.format import require_fit
from tlt_common.drafter.reading import format_of, standard_format
from tlt_common.errors import WeightsError

TARGET: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "num_hidden_layers": 12, "rope_theta": 1e6,
}  # fmt: skip
DFLASH = {
    **TARGET, "architectures": ["DFlashDraftModel"], "model_type": "qwen3", "num_hidden_layers": 3, "block_size": 16,
    "num_target_layers": 12, "dflash_config": {"mask_token_id": 95, "target_layer_ids": [1, 4, 7, 9]},
    "layer_types": ["full_attention"] * 3, "auto_map": {"AutoModel": "dflash.DFlashDraftModel"}, "dtype": "bfloat16",
}  # fmt: skip
DSPARK = {
    **TARGET, "architectures": ["Qwen3DSparkModel"], "model_type": "qwen3", "num_hidden_layers": 2, "block_size": 7,
    "mask_token_id": 90, "target_layer_ids": [2, 9], "markov_rank": 4, "markov_head_type": "gated",
    "enable_confidence_head": True, "confidence_head_with_markov": True,
}  # fmt: skip


def block(config: dict[str, Any]) -> BlockFormat:
    form = format_of(config, TARGET)
    assert isinstance(form, BlockFormat)
    return form


def test_dflash_drafts_from_masks_and_counts_the_last_token_in_its_block() -> None:
    form = block(DFLASH)
    assert (form.depth, form.layers, form.mask_token, form.markov_head) == (3, (1, 4, 7, 9), 95, MarkovHead.NONE)
    assert (form.block_drafts, form.block_queries, form.first_query) == (15, 16, 1)
    assert (form.captured_size, form.served_as) == (5 * 16, "TltDFlash")
    shapes = form.tensor_shapes()
    assert shapes["fc.weight"] == (16, 64)
    assert shapes["layers.2.self_attn.q_proj.weight"] == (32, 16)
    assert shapes["layers.2.self_attn.k_norm.weight"] == (8,)
    assert not [name for name in shapes if "markov" in name or "lm_head" in name or "embed" in name]


def test_dspark_drafts_from_the_last_token_on_and_has_a_markov_head() -> None:
    form = block(DSPARK)
    assert (form.block_drafts, form.block_queries, form.first_query) == (7, 7, 0)
    after = block({**DSPARK, "sample_from_anchor": False})
    assert (after.block_drafts, after.block_queries, after.first_query) == (7, 8, 1)
    shapes = form.tensor_shapes()
    assert shapes["markov_head.markov_w1.weight"] == shapes["markov_head.markov_w2.weight"] == (96, 4)
    assert shapes["markov_head.gate_proj.weight"] == (4, 20)
    rnn = block({**DSPARK, "markov_head_type": "rnn"}).tensor_shapes()
    assert (rnn["markov_head.joint_proj.weight"], rnn["markov_head.joint_proj.bias"]) == ((12, 24), (12,))
    assert form.ignores("confidence_head.proj.weight")
    assert form.canonical_name("encoder.output_norm_enc.weight") == "hidden_norm.weight"


def test_its_fields_may_be_nested() -> None:
    names = ("mask_token_id", "target_layer_ids", "markov_rank", "markov_head_type", "block_size")
    nested = {key: value for key, value in DSPARK.items() if key not in names}
    assert block({**nested, "dspark_config": {name: DSPARK[name] for name in names}}) == block(DSPARK)


@pytest.mark.parametrize("config", [DFLASH, DSPARK, {**DSPARK, "markov_head_type": "rnn", "sample_from_anchor": False}])
def test_what_it_writes_is_what_it_read(config: dict[str, Any]) -> None:
    form = block(config)
    written = form.config(config)
    assert format_of(written, TARGET) == form
    kept = ("architectures", "block_size", "markov_rank", "markov_head_type", "model_type", "num_hidden_layers")
    assert {name: written.get(name) for name in kept} == {name: config.get(name) for name in kept}


@pytest.mark.parametrize(
    ("base", "changes", "said"),
    [
        (DFLASH, {"architectures": ["DFlash2DraftModel"]}, "'DFlash2DraftModel'"),
        (DFLASH, {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types has 'sliding_attention'"),
        (DFLASH, {"dflash_config": {**DFLASH["dflash_config"], "projector_type": "domino"}}, "projector_type"),
        (DFLASH, {"dflash_config": {**DFLASH["dflash_config"], "conv_kernel_size": 3}}, "conv_kernel_size is 3"),
        (DFLASH, {"dflash_config": {"target_layer_ids": [1, 4]}}, "mask_token_id is None"),
        (DFLASH, {"dflash_config": {"mask_token_id": 95}}, "target_layer_ids is None; accepted: the list"),
        (DSPARK, {"target_layer_ids": None}, "target_layer_ids is None; accepted: the list"),
        (DFLASH, {"speculators_model_type": "dflash"}, "speculators_model_type is 'dflash'"),
        (DFLASH, {"dflash_config": {"mask_token_id": 96, "target_layer_ids": [1]}}, "mask_token_id is 96"),
        (DFLASH, {"dflash_config": {"mask_token_id": 9, "target_layer_ids": [1, 11]}}, r"layers \[1, 11\]"),
        (DFLASH, {"attention_bias": True}, "attention_bias is True"),
        (DFLASH, {"block_size": 1}, "block_size"),
        (DFLASH, {"markov_rank": 4}, "markov_rank is 4"),
        (DFLASH, {"hidden_size": 32}, "hidden_size is 32"),
        (DSPARK, {"markov_rank": 0}, "markov_rank"),
        (DSPARK, {"markov_head_type": "tree"}, "markov_head_type is 'tree'; accepted: vanilla, gated, rnn"),
        (DSPARK, {"quantization_config": {"quant_algo": "W4A16_NVFP4"}}, "quantization_config"),
        (DSPARK, {"rope_scaling": {"rope_type": "default", "rope_dim": 4}}, "rope_dim is 4"),
    ],
)
def test_variants_that_are_not_run_are_refused(base: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WeightsError, match=said):
        format_of({**base, **changes}, TARGET)


def test_a_drafter_from_nothing_is_one_of_dspark() -> None:
    form = standard_format(DrafterArchitecture.BLOCK, TARGET)
    assert isinstance(form, BlockFormat)
    assert (form.block_drafts, form.model_class, form.layers) == (7, "Qwen3DSparkModel", (1, 5, 8))


def test_another_architecture_than_the_launch_is_refused_by_name() -> None:
    eagle = standard_format(DrafterArchitecture.EAGLE, TARGET)
    with pytest.raises(WeightsError, match="architecture is 'block'; the engine was launched for 'eagle'"):
        require_fit(eagle, block(DFLASH))
    with pytest.raises(WeightsError, match="drafts is 15; the engine was launched for 7"):
        require_fit(block({**DFLASH, "block_size": 8}), block(DFLASH))
