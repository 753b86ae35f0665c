"""Fields of OpenAI's, vLLM's and SGLang's protocols that are not implemented, with the values that request nothing."""

from collections.abc import Mapping
from typing import Any

_NONE = (
    "allowed_token_ids", "bootstrap_host", "bootstrap_port", "bootstrap_room", "custom_labels",
    "custom_logit_processor", "data_parallel_rank", "disagg_prefill_dp_rank", "ebnf", "guided_json",
    "guided_regex", "images_config", "json_schema", "kv_transfer_params", "mm_processor_kwargs",
    "regex", "routed_dp_rank", "sampling_logprobs_mode", "session_id", "session_params",
    "structured_outputs", "suffix", "truncate_prompt_tokens", "watermark",
)  # fmt: skip
_OFF = (
    "echo", "return_cached_tokens_details", "return_flat_raw_output_top_logprobs", "return_flat_raw_top_logprobs",
    "return_hidden_states", "return_input_ids_in_sglext", "return_meta_info", "return_output_ids_in_sglext",
    "return_prompt_token_ids", "return_routed_experts", "return_sampling_mask", "return_spec_tokens_details",
    "use_beam_search",
)  # fmt: skip
SAMPLED: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(_NONE, (None,)),
    **dict.fromkeys(_OFF, (None, False)),
    **dict.fromkeys(("custom_params", "logit_bias", "vllm_xargs"), (None, {})),
    **dict.fromkeys(("bad_words", "stop_regex"), (None, [], "")),
    "best_of": (None, 1),
    "detokenize": (None, True, False),
    "length_penalty": (None, 1.0, 1),
    "logits_processors": (None, []),
    "priority": (None, 0),
    "return_flat_raw_top_logprobs_b64": (None, True, False),  # how others would be written
    "routed_experts_start_len": (None, 0),
    "spaces_between_special_tokens": (None, True, False),  # concerns tokenizers without a tokenizer.json
}
"""Fields of every call that samples."""
IGNORED: Mapping[str, type] = {
    "user": str, "metadata": dict, "safety_identifier": str, "prompt_cache_key": str,
}  # fmt: skip
"""Fields about OpenAI's accounts, which do not exist here. Turns find their cache by X-Session-ID."""
RETURNED = ("return_meta_info", "return_prompt_token_ids")
"""Additional fields that chats return on request."""
CHAT: Mapping[str, tuple[Any, ...]] = {
    **{name: accepted for name, accepted in SAMPLED.items() if name not in RETURNED},
    **dict.fromkeys(
        (
            "audio", "extra_key", "function_call", "functions", "max_dynamic_patch",
            "min_dynamic_patch", "prediction", "prompt_cache_retention", "reasoning_effort", "task", "thinking",
            "verbosity", "video_config", "web_search_options",
        ),
        (None,),
    ),
    **dict.fromkeys(
        ("include_reasoning", "separate_reasoning", "store", "use_audio_in_video"),
        (None, False),
    ),
    "add_special_tokens": (None, False),  # templates write them
    "media_io_kwargs": (None, {}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True),
    "response_format": (None, {"type": "text"}),
    "service_tier": (None, "auto", "default"),
    "stream_reasoning": (None, True, False),  # how others would be sent
}  # fmt: skip
"""Fields of chats."""
