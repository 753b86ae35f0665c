"""
Keys of a config.json with the same meaning in SGLang and transformers. Pure.

A key is either tested (`make families` compares log-probabilities under two values), accepted with certain values only,
or irrelevant to the computation. All others are refused by name: an engine that ignores one serves garbage.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tlt_worker.model.families import Family

TRIED = frozenset({
    "attention_bias", "head_dim", "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
    "num_key_value_heads", "rms_norm_eps", "rope_parameters", "tie_word_embeddings", "vocab_size",
})  # fmt: skip
"""Under every family; those of one family are in its row."""
_CHECKED = frozenset({
    "architectures", "compression_config", "dtype", "experts_per_token", "hidden_act", "layer_types",
    "max_position_embeddings", "max_window_layers", "model_type", "original_max_position_embeddings",
    "partial_rotary_factor", "quantization", "quantization_config", "rope_scaling", "rope_theta", "sliding_window",
    "torch_dtype", "use_sliding_window",
})  # fmt: skip
"""`requirements` says what is accepted."""
INFORMATIVE = frozenset({
    # Training, and what transformers' forward returns besides logits.
    "attention_dropout", "aux_loss_alpha", "chunk_size_feed_forward", "embd_pdrop", "hidden_dropout",
    "hidden_dropout_prob", "initializer_range", "output_attentions", "output_hidden_states", "output_past",
    "output_router_logits", "pretraining_tp", "resid_pdrop", "return_dict", "return_dict_in_generate",
    "router_aux_loss_coef", "seq_aux", "use_cache",
    # Tokens, and how transformers generates.
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",
    "forced_bos_token_id", "forced_eos_token_id", "length_penalty", "max_length", "max_new_tokens",
    "max_sequence_length", "min_length", "model_max_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_return_sequences", "output_scores", "pad_token_id", "prefix", "remove_invalid_values", "repetition_penalty",
    "sep_token_id", "suppress_tokens", "temperature", "tokenizer_class", "top_k", "top_p", "typical_p",
    "unk_token_id",
    # Where a file is from, and what other programs do with it.
    "auto_map", "dataset", "finetuning_task", "id2label", "initial_context_length", "is_llama_config", "label2id",
    "license", "model_name", "name_or_path", "problem_type", "task_specific_params", "torchscript",
    "transformers.js_config", "transformers_version", "transformers_weights", "unsloth_fixed", "unsloth_version",
})  # fmt: skip
_FIXED: Mapping[str, tuple[Any, ...]] = MappingProxyType({
    "bias": (False,), "dual_chunk_attention_config": (), "is_decoder": (False, True), "is_encoder_decoder": (False,),
    "rope_interleaved": (False,), "rope_is_neox_style": (True,), "router_jitter_noise": (0,),
})  # fmt: skip
"""Values under which both compute the same; of every family."""


def unknown_keys(config: Mapping[str, Any], family: Family) -> Iterator[str]:
    """Yield the reason for each key of a listed model's config.json that is refused."""
    fixed = {**_FIXED, **family.fixed}
    known = TRIED | _CHECKED | INFORMATIVE | frozenset(family.tried)
    for name, value in config.items():
        if name in fixed:
            accepted = fixed[name]
            if value not in (*accepted, None):
                shown = " or ".join(map(repr, accepted)) or "none"
                yield (
                    f"its {name} is {value!r}, which SGLang and transformers do not both follow; accepted for "
                    f"{family.architecture}: {shown}"
                )
        elif name not in known and not name.startswith("_") and not _asks_nothing(value):
            yield (
                f"its {name} is {value!r}, a key not tested with {family.architecture} in SGLang; accepted: "
                "a config.json without it, if it does not change what the model computes"
            )


def _asks_nothing(value: Any) -> bool:
    return value is None or value is False or (isinstance(value, str | list | dict) and not value)
