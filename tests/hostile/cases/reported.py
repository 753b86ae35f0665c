"""Bodies with more mistakes than a caller wants to read: the first is named, briefly, at no cost."""

from tests.hostile.case import Case, refused, written

MANY = 200_000
CHAT = {"messages": [{"role": "user", "content": "a"}]}

CASES = [
    *refused(
        "/generate", "input_ids", {"input_ids": ["a"] * MANY}, {"input_ids": [1.5] * MANY}, {"input_ids": [None] * MANY}
    ),
    *refused("/generate", "input_ids", {"input_ids": [["a"] * MANY]}, {"input_ids": [[True] * MANY]}, prefix="nested"),
    *refused("/generate", "text", {"text": [4] * MANY}, {"text": [None] * MANY}),
    *refused("/generate", "key", {f"key{place}": 1 for place in range(MANY // 4)}),
    *refused("/generate", "a" * 80, {"a" * 10**6: 1}),
    *refused("/generate", "sampling_params.key", {"sampling_params": {f"key{place}": 1 for place in range(MANY // 4)}}),
    *refused("/generate", "sampling_params", {"input_ids": [4], "sampling_params": "a" * 10**6}),
    *refused(
        "/generate", "stream", {"input_ids": [4], "stream": "a" * 10**6}, {"input_ids": [4], "stream": [0] * MANY}
    ),
    *refused("/generate", "session_id", {"input_ids": [4], "session_id": [["a"] * 1000] * 200}),
    *refused(
        "/v1/completions", "prompt", {"prompt": [True] * MANY}, {"prompt": [[1.5] * MANY]}, {"prompt": ["a", 4] * 1000}
    ),
    *refused("/v1/completions", "model", {"prompt": [4], "model": "a" * 10**6}, status=404),
    *refused("/v1/completions", "user", {"prompt": [4], "user": "a" * 10**6}),
    *refused("/v1/chat/completions", "messages", {"messages": [1] * MANY}, {"messages": [[]] * MANY}),
    *refused(
        "/v1/chat/completions", "messages.0.role", {"messages": [{"role": "a" * 10**6}]}, {"messages": [{}] * 50_000}
    ),
    *refused("/v1/chat/completions", "messages.0.content", {"messages": [{"role": "user", "content": [1] * MANY}]}),
    *refused("/v1/chat/completions", "tools", {**CHAT, "tools": [1] * MANY}, {**CHAT, "tools": [{}] * 50_000}),
    *refused(
        "/v1/chat/completions",
        "tool_choice",
        {**CHAT, "tool_choice": "a" * 10**6},
        {**CHAT, "tool_choice": {"a": "b" * 10**6}},
    ),
    *refused("/v1/chat/completions", "stop", {**CHAT, "stop": [4] * MANY}),
    *refused("/inference/v1/generate", "token_ids", {"token_ids": ["a"] * MANY, "sampling_params": {}}),
    *refused("/tokenize", "prompt", {"prompt": [4] * MANY}),
    *refused("/detokenize", "tokens", {"tokens": ["a"] * MANY}),
    *refused("/abort_request", "rid", {"rid": [4] * MANY}, {"rid": "a" * 10**6}),
    *refused("/pause_generation", "mode", {"mode": "a" * 10**6}),
    *refused("/update_weights_from_disk", "weight_version", {"model_path": "/a", "weight_version": "a" * 10**6}),
    *refused("/update_weights_from_distributed", "names", {"names": [4] * MANY, "dtypes": [], "shapes": []}),
    *refused("/update_weights_from_distributed", "shapes", {"names": [], "dtypes": [], "shapes": [["a"] * MANY]}),
    *refused("/update_weights_from_tensor", "serialized_named_tensors", {"serialized_named_tensors": ["a"] * MANY}),
    *refused(
        "/update_weights_from_tensor",
        "serialized_named_tensors",
        *(
            {"serialized_named_tensors": [text]}
            for text in ("\u00e9", "AAA\u00e9", "\u4e2d\u6587", "AAAA\U0001f600", "\uff21AAA")
        ),
        prefix="not ASCII",
    ),
    *refused(
        "/update_weights_from_tensor",
        "serialized_named_tensors",
        {"serialized_named_tensors": ["*" * 10**6]},
        prefix="no base64",
    ),
    *refused("/workers", "url", {"url": "a" * 10**6}),
    *written(
        "/generate",
        "input_ids",
        [("a large body whose last id is wrong", b'{"input_ids": [' + b"4," * 10**6 + b'"a"]}')],
    ),
    *written("/generate", "input_ids", [("a large body of ids", b'{"input_ids": [' + b"123," * 2**20 + b"4]}")]),
    *written("/generate", "body", [("a large body of lists", b'{"input_ids": [' + b"[]," * 2**20 + b"[]]}")]),
    *written("/generate", "body", [("a large body of objects", b'{"input_ids": [' + b"{}," * 10**5 + b"{}]}")]),
    *written("/generate", "body", [("a large body of strings", b'{"text": [' + b'"a",' * 2**20 + b'"a"]}')]),
    *written("/generate", "", [("a large body of nulls", b'{"text": [' + b"null," * 2**20 + b'"a"]}')]),
    *written("/generate", "input_ids", [("a large body of floats", b'{"input_ids": [' + b"1.5," * 2**20 + b"4]}")]),
    *written("/generate", "text", [("a large text", b'{"text": "' + b"a" * 2**22 + b'"}')]),
    Case(name="a body above the limit", content=b" " * (16 * 2**20 + 1), status=413, param="body"),
]
