"""Bodies that ask for what a gateway cannot do, or does not understand: each is refused with the field's name."""

from typing import Any

from tests.hostile.case import Case, refused

SAMPLING = {"max_new_tokens": 3, "temperature": 1.0}
ASK = [{"role": "user", "content": "the weather in Paris"}]
SAID = [*ASK, {"role": "assistant", "content": "sunny"}]
CHOICE = {"type": "function", "function": {"name": "f"}}
GROUP = {"master_address": "127.0.0.1", "master_port": 9, "rank_offset": 1, "world_size": 2, "backend": "gloo"}
TENSOR: dict[str, Any] = {"names": ["a"], "dtypes": ["float32"], "shapes": [[1]]}


def said(**fields: object) -> dict[str, Any]:
    """Return a change to a chat of one message of the assistant."""
    return {"messages": [{"role": "assistant", "content": "x", **fields}]}


GENERATE: tuple[tuple[str, dict[str, Any]], ...] = (
    *(
        ("input_ids", {"input_ids": ids})
        for ids in ([4, 1000], [], [4.5], [True], [4, 2**70], [-1], [[4], 5], {"a": 1})
    ),
    ("sampling_params.temperature", {"sampling_params": {"temperature": -1}}),
    ("sampling_params.temperature", {"sampling_params": {"temperature": "hot"}}),
    ("sampling_params.regex", {"sampling_params": {"regex": "a*"}}),
    ("sampling_params.warmth", {"sampling_params": {"warmth": 1}}),
    ("sampling_params.stop", {"sampling_params": {"stop_token_ids": [10**9]}}),
    ("sampling_params.top_k", {"sampling_params": {"top_k": 2**40}}),
    ("sampling_params", {"sampling_params": [SAMPLING, SAMPLING]}),
    ("rid", {"rid": "x" * 10_000}),
    ("rid", {"rid": "\x00"}),
    ("stream", {"stream": "yes"}),
    ("return_hidden_states", {"return_hidden_states": True}),
    ("lora_path", {"lora_path": "x"}),
    *(("logprob_start_len", {"return_logprob": True, "logprob_start_len": start}) for start in (-2, 1000, 2**40, "0")),
    ("log_metrics", {"log_metrics": False}),
    ("unknown", {"unknown": 1}),
)
COMPLETIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("prompt", {"prompt": [1000]}),
    ("prompt", {"prompt": [[4], 5]}),
    ("temperature", {"temperature": 1e9}),
    ("temperature", {"temperature": "1"}),
    ("stream_options", {"stream_options": {"include": True}}),
    ("echo", {"echo": True}),
    ("suffix", {"suffix": "x"}),
    ("whatever", {"whatever": 1}),
)
CHAT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("messages.0.role", {"messages": [{"role": "robot", "content": ""}]}),
    ("messages.0.content", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}),
    ("messages.refusal", {"messages": [{"role": "user", "content": "x", "refusal": "no"}]}),
    ("messages.0.mood", {"messages": [{"role": "user", "content": "x", "mood": "good"}]}),
    ("messages.0.reasoning", said(reasoning=5)),
    ("messages.reasoning", said(reasoning="a", reasoning_content="b")),
    ("messages[0].generation_token_ids", {"messages": [{"role": "assistant", "generation_token_ids": [1]}]}),
    ("messages[0].generation_token_ids", {"messages": [{"role": "assistant", "prompt_token_ids": [1]}]}),
    ("tools", {"tools": [CHOICE]}),
    ("tools[0]", {"tools": [{"type": "web"}]}),
    ("tool_choice", {"tool_choice": "required"}),
    ("tool_choice", {"tool_choice": CHOICE}),
    ("parallel_tool_calls", {"parallel_tool_calls": False}),
    ("chat_template", {"chat_template": "{% if %}"}),
    ("messages", {"chat_template": "{{ raise_exception('no') }}"}),
    ("messages", {"chat_template": "{{ ''.__class__.__mro__ }}{{ messages.clear() }}"}),
    ("chat_template_kwargs.messages", {"chat_template_kwargs": {"messages": []}}),
    ("add_generation_prompt", {"add_generation_prompt": False}),
    ("required_prefix_token_ids", {"required_prefix_token_ids": [1]}),
    *(
        ("required_prefix_token_ids", {"messages": SAID, "required_prefix_token_ids": ids})
        for ids in ([], [-1], [10**30])
    ),
    ("messages", {"messages": SAID, "required_prefix_token_ids": [9999]}),
    *(("input_ids", {"input_ids": ids}) for ids in ([], [-1], [9999], ["a"], [1] * 5000)),
    ("input_ids", {"messages": SAID, "input_ids": [4, 5], "required_prefix_token_ids": [5]}),
    ("top_logprobs", {"top_logprobs": 3, "logprobs": True}),
    ("stream_options", {"stream_options": {"include_usage": True}}),
    ("max_tokens", {"max_tokens": 100_000}),
    ("response_format", {"response_format": {"type": "json_object"}}),
    ("whatever", {"whatever": 1}),
    ("store", {"store": True}),
    ("user", {"user": 5}),
    ("user", {"user": "a" * 2000}),
    ("metadata", {"metadata": "x"}),
    ("metadata", {"metadata": {str(n): "" for n in range(17)}}),
    ("prompt_cache_key", {"prompt_cache_key": ["x"]}),
    ("return_prompt_token_ids", {"return_prompt_token_ids": True, "stream": True}),
    ("return_meta_info", {"return_meta_info": True, "stream": True}),
)
CONTROL: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("/inference/v1/generate", "token_ids", {"token_ids": [2**40], "sampling_params": {}}),
    ("/inference/v1/generate", "sampling_params", {"token_ids": [4]}),
    ("/pause_generation", "mode", {"mode": "stop"}),
    ("/abort_request", "rid", {"rid": 5}),
    ("/continue_generation", "now", {"now": True}),
    ("/update_weights_from_disk", "model_path", {"model_path": 5}),
    ("/init_weight_transfer_engine", "init_info.backend", {"init_info": {**GROUP, "backend": None}}),
    ("/init_weight_transfer_engine", "world_size", {"init_info": {**GROUP, "world_size": 1}}),
    ("/init_weight_transfer_engine", "init_info.packed", {"init_info": {**GROUP, "packed": True}}),
    ("/init_weight_transfer_engine", "init_info", {}),
    ("/start_weight_update", "is_checkpoint_format", {"is_checkpoint_format": False}),
    ("/update_weights", "update_info", {}),
    ("/update_weights", "update_info.", {"update_info": {"names": ["a"], "dtype_names": [], "shapes": [[1]]}}),
    ("/update_weights", "dtypes", {"update_info": {"names": ["a"], "dtype_names": ["int8"], "shapes": [[1]]}}),
    ("/update_weights", "weight_version", {"weight_dir": "/w", "weight_version": "new"}),
    ("/fetch_weights", "target_version", {"sync_dir": "/w"}),
    ("/fetch_weights", "uri", {"target_version": 3}),
    ("/init_broadcaster", "host", {"host": "h", "port": 1}),
    ("/pull_weights", "source_dir", {"source_dir": "/d", "target_version": 1}),
    ("/release_memory_occupation", "tags", {"tags": ["kv_cache"]}),
    ("/release_memory_occupation", "tags", {"tags": ["disk"]}),
    ("/update_weights_from_tensor", "serialized_named_tensors", {"serialized_named_tensors": []}),
    ("/update_weights_from_tensor", "serialized_named_tensors", {"serialized_named_tensors": ["?"]}),
    ("/update_weights_from_distributed", "names", {"names": [], "dtypes": [], "shapes": []}),
    ("/update_weights_from_distributed", "shapes", {**TENSOR, "shapes": []}),
    ("/update_weights_from_distributed", "load_format", {**TENSOR, "load_format": "delta"}),
)
QUERIES = (("/sleep?depth=3", "depth"), ("/sleep?level=2", "level"), ("/sleep?tags=kv_cache", "level"),
           ("/wake_up?tags=disk", "tags"), ("/release_memory_occupation", "tags"))  # fmt: skip


def unmet(path: str, base: dict[str, Any], changes: tuple[tuple[str, dict[str, Any]], ...]) -> list[Case]:
    """Return cases of a valid body with one change each, by the field that is refused and that the message names."""
    return [
        case
        for place, (param, change) in enumerate(changes)
        for case in refused(
            path, param, {**base, **change}, prefix=f"{path} unmet {place}", within=param.rpartition(".")[2]
        )
    ]


CASES = [
    *unmet("/generate", {"input_ids": [4], "sampling_params": SAMPLING}, GENERATE),
    *unmet("/v1/completions", {"prompt": [4], "max_tokens": 2}, COMPLETIONS),
    *unmet("/v1/chat/completions", {"messages": ASK}, CHAT),
    *refused("/generate", "input_ids[1]", {"input_ids": [[4], [5, 1000]]}, within="input_ids[1][1] is 1000"),
    *(
        case
        for place, (path, param, body) in enumerate(CONTROL)
        for case in refused(path, param, body, prefix=f"{path} unmet {place}")
    ),
    *(Case(name=f"{path} without a body", path=path, param=param) for path, param in QUERIES),
]
