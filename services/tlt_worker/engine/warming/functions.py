"""
Functions and kernels that are compiled on first use, and the warm-up requests that use them. Pure.

Compiling takes seconds to minutes. A test finds the functions in the source of SGLang 0.5.23 and fails if one is
missing here. Kernels of Triton and modules of FlashInfer and SGLang that a pass of a model uses are compiled by any
request under its arm, and under each class of shapes (`requests.batch_sizes`): Triton compiles once more for sizes of
1, for multiples of 16 and for each power of two that a size is rounded to, and `torch.compile` for sizes of 1.
"""

from typing import Final

ALWAYS = "every pass"
"""Every request, under its arm."""
NEVER = "never: "
"""Prefix of why a function does not run in the suite's engines."""

_LAYERS = NEVER + "a layer of models that the suite does not serve"
_CONVERSION = NEVER + "an option that the suite does not set"
_PLATFORM = NEVER + "another platform"
_ALGORITHM = NEVER + "another speculative algorithm"
_VARIANT = NEVER + "a variant of block drafters that is refused"

COMPILED: Final = {
    # SGLang's, by file and function.
    "srt/sampling/penaltylib/repetition_penalty.py:apply_scaling_penalties": "penalties",
    "srt/speculative/spec_utils.py:_select_top_k_tokens_later": "trees",
    "srt/layers/vocab_parallel_embedding.py:get_masked_input_and_mask": ALWAYS,
    "srt/layers/moe/moe_runner/triton_utils/fused_moe.py:_swiglu_silu_clamp_mul": ALWAYS,
    "srt/layers/moe/moe_runner/triton_utils/fused_moe.py:moe_sum_reduce_torch_compile": ALWAYS,
    "srt/layers/moe/moe_runner/triton_utils/fused_moe.py:swiglu_gpt_oss_sigmoid_alpha": ALWAYS,
    "srt/layers/moe/moe_runner/triton_utils/fused_moe.py:swiglu_no_interleaved_with_alpha_and_limit": ALWAYS,
    "srt/layers/moe/topk.py:_biased_grouped_topk_postprocess": ALWAYS,
    "srt/layers/moe/topk.py:biased_grouped_topk_impl": ALWAYS,
    "srt/layers/moe/topk.py:biased_topk_impl": ALWAYS,
    "srt/layers/moe/topk.py:grouped_topk_gpu": ALWAYS,
    "srt/layers/moe/topk.py:kimi_k2_biased_topk_impl": ALWAYS,
    "srt/layers/rotary_embedding/base.py:RotaryEmbedding.__init__": ALWAYS,
    "srt/layers/rotary_embedding/utils.py:apply_rotary_pos_emb_native": ALWAYS,
    "srt/model_executor/runner_utils/capture_mode.py:compile_in_capture_mode": ALWAYS,
    "kernels/fused_op.py:BaseFusedOp.forward_torch_compile": ALWAYS,
    "srt/layers/sampler.py:multinomial_with_seed": NEVER + "replaced by `hooks.sample_plainly`",
    "srt/layers/attention/flashattention_backend.py:draft_decode_set_expand_metadata": (
        NEVER + "trees run with pages of one token"
    ),
    "srt/managers/overlap_utils.py:_assert_nonneg_and_invalidate": NEVER + "SGLang's own tests",
    "srt/layers/attention/torch_flex_backend.py:TorchFlexAttnBackend.__init__": NEVER + "not a planned backend",
    "srt/layers/quantization/kvfp4_tensor.py:FP4MXBlock16KVQuantizeUtil.batched_dequantize": _CONVERSION,
    "srt/layers/quantization/kvfp4_tensor.py:FP4MXBlock16KVQuantizeUtil.batched_quantize": _CONVERSION,
    "srt/compilation/compile.py:install_torch_compiled._ensure_compiled": _CONVERSION,
    "srt/compilation/torch_compile_decoration.py:patch_model": _CONVERSION,
    "kernels/ops/lora/moe/virtual_experts.py:_align_block_size_torch": _CONVERSION,
    "srt/layers/moe/kt_ep_wrapper.py:mask_cpu_expert_ids": _CONVERSION,
    "srt/layers/moe/waterfill.py:expand_topk_with_shared_expert": _CONVERSION,
    "srt/layers/moe/moe_runner/deep_gemm.py:_cast_to_e8m0_with_rounding_up": _CONVERSION,
    "srt/hardware_backend/npu/graph_runner/npu_graph_runner.py:patch_model_npu": _PLATFORM,
    "srt/model_executor/cpu_graph_runner.py:patch_model": _PLATFORM,
    "srt/dllm/algorithm/gemma4_renoise.py:": _ALGORITHM,
    "srt/models/dflash.py:_follow_maps": _VARIANT,
    "srt/models/dflash.py:_grouped_conv": _VARIANT,
    "srt/models/dflash.py:_score_edges": _VARIANT,
    "srt/speculative/uno_utils.py:_build_sparse_target_support_tensors": _ALGORITHM,
    "srt/speculative/uno_utils.py:_sparse_rejection_from_support": _ALGORITHM,
    **dict.fromkeys(
        (
            "kernels/ops/elementwise/beam_fused.py:BeamAttentionGateOp.forward_torch_compile",
            "kernels/ops/layernorm/beam_fused.py:BeamSandwichResidualRMSNormOp.forward_torch_compile",
            "srt/layers/attention/dsa/dsa_indexer.py:Indexer._apply_q_scale_and_softmax_scale",
            "srt/layers/attention/dsa/dsa_indexer.py:Indexer._get_logits_head_gate",
            "srt/layers/attention/dsa/dsa_indexer.py:Indexer._project_and_scale_head_gates",
            "srt/layers/attention/dsa/dsa_indexer.py:Indexer._scale_head_gates",
            "srt/layers/attention/dsa/dsa_indexer_kpool.py:IndexerKPool._apply_q_scale_and_softmax_scale",
            "srt/layers/attention/dsa/dsa_indexer_kpool.py:IndexerKPool._get_logits_head_gate",
            "srt/layers/attention/dsa/dsa_indexer_kpool.py:IndexerKPool._project_and_scale_head_gates",
            "srt/layers/attention/dsa_backend.py:_compiled_cat",
            "srt/layers/hyperconnection.py:GatedResidual.__init__",
            "srt/layers/rotary_embedding/mrope.py:Ernie4_5_VLRotaryEmbedding.__init__",
            "srt/models/cohere2_moe.py:_cohere_layer_norm",
            "srt/models/commandr.py:layer_norm_func",
            "srt/models/deepseek_ocr.py:quick_gelu",
            "srt/models/glm5_next.py:swiglu_clamped",
            "srt/models/inkling_common/dense_mlp.py:_sum_dim0",
            "srt/models/inkling_common/dense_mlp.py:swiglu",
            "srt/models/inkling_common/dense_mlp.py:swiglu_contiguous",
            "srt/models/kimi_k25.py:get_rope_shape",
            "srt/models/llama4.py:Llama4Attention._mul_attn_scale",
            "srt/models/llama4.py:Llama4MoE.custom_routing_function",
            "srt/models/minimax_m2.py:MiniMaxM2RMSNormTP.forward",
            "srt/models/minimax_vl_common.py:_minimax_rope_applier",
            "srt/models/phi3_small.py:gegelu",
        ),
        _LAYERS,
    ),
    # The suite's own kernels.
    "tlt_worker/scheduler/sampling/kernels.py:truncate_row": "filters",
    "tlt_worker/scheduler/sampling/kernels.py:draw_row": ALWAYS,
    "tlt_worker/scheduler/sampling/kernels.py:draw_beyond": ALWAYS,
    "tlt_worker/scheduler/sampling/accept_kernels.py:accept_row": ALWAYS,
    "tlt_worker/scheduler/sampling/accept_kernels.py:follow_row": ALWAYS,
    "tlt_worker/scheduler/sampling/kernels.py:score_part": "seed",
    "tlt_worker/scheduler/sampling/kernels.py:take_best": "seed",
}
"""What uses a compiled function: a key of `requests.SETTINGS`, `trees`, every pass, or why nothing does."""
