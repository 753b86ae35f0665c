"""Fields that ask for nothing: the defaults of SGLang's, vLLM's and OpenAI's classes, and nulls. All are accepted."""

from typing import Any

from tests.hostile.case import Case, accepted, refused

SAMPLING = {"max_new_tokens": 2}
IDS = {"input_ids": [4], "sampling_params": SAMPLING}
COMPLETION = {"prompt": [4], "max_tokens": 2}
CHAT = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}
TOKENS: dict[str, Any] = {"token_ids": [4], "sampling_params": {"max_tokens": 2}}
OPENAI_NULL = (
    "n", "stream", "stream_options", "stop", "seed", "temperature", "top_p", "frequency_penalty", "presence_penalty", "logprobs",
    "user", "logit_bias", "model", "top_k", "min_p", "min_tokens", "repetition_penalty", "stop_token_ids", "ignore_eos",
    "skip_special_tokens", "no_stop_trim", "include_stop_str_in_output", "request_id", "rid", "return_token_ids", "best_of",
    "response_format", "priority", "cache_salt", "session_id", "session_params", "lora_path", "regex", "ebnf", "json_schema",
    "stop_regex", "extra_key", "data_parallel_rank", "custom_params", "custom_logit_processor", "watermark", "images_config",
    "mm_processor_kwargs", "bootstrap_host", "bootstrap_port", "bootstrap_room", "routed_dp_rank", "disagg_prefill_dp_rank",
    "return_hidden_states", "structured_outputs", "truncate_prompt_tokens", "prompt_logprobs", "kv_transfer_params",
    "vllm_xargs", "logits_processors", "allowed_token_ids", "bad_words", "add_special_tokens", "echo",
    "return_tokens_as_token_ids", "spaces_between_special_tokens", "length_penalty", "use_beam_search", "metadata", "max_tokens",
)  # fmt: skip
CHAT_NULL = (
    *OPENAI_NULL, "tools", "tool_choice", "top_logprobs", "max_completion_tokens", "parallel_tool_calls", "reasoning_effort",
    "chat_template", "chat_template_kwargs", "service_tier", "store", "modalities", "prediction", "audio", "functions",
    "function_call", "verbosity", "web_search_options", "documents", "thinking", "task", "input_ids", "max_dynamic_patch",
    "min_dynamic_patch", "video_config", "sampling_logprobs_mode", "continue_final_message", "separate_reasoning",
    "include_reasoning", "stream_reasoning", "use_audio_in_video", "prompt_cache_key", "prompt_cache_retention",
    "safety_identifier", "media_io_kwargs", "add_generation_prompt", "required_prefix_token_ids",
)  # fmt: skip
SGLANG_CHAT = {
    "return_hidden_states": False, "return_routed_experts": False, "routed_experts_start_len": 0,
    "return_cached_tokens_details": False, "return_spec_tokens_details": False, "return_meta_info": False,
    "return_input_ids_in_sglext": False, "return_output_ids_in_sglext": False, "return_sampling_mask": False,
    "return_flat_raw_output_top_logprobs": False, "return_flat_raw_top_logprobs_b64": True, "min_tokens": 0,
    "no_stop_trim": False, "ignore_eos": False, "continue_final_message": False, "skip_special_tokens": True,
    "separate_reasoning": False, "stream_reasoning": True, "use_audio_in_video": False, "tool_choice": "none",
    "parallel_tool_calls": True, "top_k": -1, "stop_regex": [], "return_prompt_token_ids": False, "top_logprobs": 0,
}  # fmt: skip
SAMPLING_NULL = (
    "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k", "min_p", "frequency_penalty",
    "presence_penalty", "repetition_penalty", "min_new_tokens", "n", "beam_width", "json_schema", "regex", "ebnf",
    "structural_tag", "ignore_eos", "skip_special_tokens", "spaces_between_special_tokens", "no_stop_trim", "stream_interval",
    "logit_bias", "sampling_seed", "custom_params", "watermark",
)  # fmt: skip
GENERATE_NULL = (
    "rid", "text", "stream", "return_logprob", "logprob_start_len", "top_logprobs_num", "return_text_in_logprobs",
    "return_prompt_token_ids", "sampling_params", "image_data", "session_id", "session_params", "lora_path", "priority",
    "cache_salt", "log_metrics", "no_logs", "return_hidden_states", "return_routed_experts", "routed_experts_start_len",
    "background", "require_reasoning", "return_bytes", "extra_key", "custom_labels",
)  # fmt: skip
CONTROL: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("/continue_generation", {}, "tags"),
    ("/continue_generation", {}, "torch_empty_cache"),
    ("/abort_request", {}, "rid"),
    ("/abort_request", {}, "abort_all"),
    ("/reset_prefix_cache", {}, "reset_running_requests"),
    ("/tokenize", {"prompt": "a"}, "add_special_tokens"),
    ("/tokenize", {"prompt": "a"}, "return_token_strs"),
    ("/tokenize", {"prompt": "a"}, "messages"),
    ("/tokenize", {"prompt": "a"}, "add_generation_prompt"),
    ("/detokenize", {"tokens": [4]}, "skip_special_tokens"),
    ("/detokenize", {"tokens": [4]}, "model"),
)

CASES = [
    *accepted("/v1/completions", COMPLETION, *({name: None} for name in OPENAI_NULL if name != "max_tokens")),
    *accepted("/v1/chat/completions", CHAT, *({name: None} for name in CHAT_NULL)),
    *accepted("/v1/chat/completions", CHAT, *({name: value} for name, value in SGLANG_CHAT.items())),
    *accepted(
        "/generate",
        {"input_ids": [4]},
        *({"sampling_params": {**SAMPLING, name: None}} for name in SAMPLING_NULL if name != "max_new_tokens"),
    ),
    *accepted("/generate", IDS, *({name: None} for name in GENERATE_NULL)),
    *accepted("/inference/v1/generate", TOKENS, *({name: None} for name in ("model", "request_id", "cache_salt", "priority", "stream"))),
    *(Case(name=f"{path} {field} null {base}", path=path, body={**base, field: None}, status=200) for path, base, field in CONTROL),
    Case(name="/pause_generation mode null", path="/pause_generation", body={"mode": None}, status=200, afterwards="/continue_generation"),
    *refused("/v1/completions", "prompt", {"prompt": None}, {"max_tokens": 2}),
    *refused("/generate", "input_ids", {"input_ids": None}, {"input_ids": None, "text": None}, {"input_ids": [4], "text": "a"}),
    *refused("/v1/chat/completions", "messages", {"messages": None}, {"messages": []}, {}),
    *refused("/inference/v1/generate", "", {"token_ids": None, "sampling_params": {}}, {"token_ids": [4], "sampling_params": None}),
    *refused("/detokenize", "tokens", {"tokens": None}, {}),
    *refused("/update_weights_from_disk", "model_path", {"model_path": None}, {}),
    Case(name="two names of a request", path="/v1/completions", body={**COMPLETION, "rid": "a", "request_id": "b"}, param="rid"),
    Case(name="a name twice", path="/v1/completions", body={**COMPLETION, "rid": "a", "request_id": "a"}, status=200),
    Case(name="two limits", path="/v1/chat/completions", body={**CHAT, "max_completion_tokens": 3}, param="max_completion_tokens"),
    Case(name="prompt beside messages", path="/tokenize", body={"prompt": "a", "messages": CHAT["messages"]}, param="prompt"),
]  # fmt: skip
