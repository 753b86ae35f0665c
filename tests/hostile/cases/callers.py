"""Callers without a token, or with one that does not permit the call: refused before a byte of their body is read."""

from typing import Any

from tests.hostile.case import At, Case, bearer

GOOD = {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}
GENERATE = ("/generate", "/v1/completions", "/v1/chat/completions", "/v1/chat/completions/render", "/inference/v1/generate",
            "/tokenize", "/detokenize", "/announce", "/abort_request", "/finish_session")  # fmt: skip
UPDATE = ("/pause_generation", "/continue_generation", "/update_weights_from_disk", "/update_weights_from_distributed",
          "/update_weights_from_tensor", "/init_weights_update_group", "/destroy_weights_update_group", "/update_weights",
          "/fetch_weights", "/pause", "/resume", "/sleep", "/wake_up", "/reset_prefix_cache", "/flush_cache", "/pull_weights",
          "/init_broadcaster", "/release_memory_occupation", "/resume_memory_occupation", "/finish_weight_update",
          "/load_lora_adapter", "/load_lora_adapter_from_tensors", "/unload_lora_adapter", "/v1/load_lora_adapter",
          "/v1/unload_lora_adapter", "/skyrl/v1/load_lora_adapter")  # fmt: skip
READ = (
    "/v1/models",
    "/server_info",
    "/model_info",
    "/weight_version",
    "/v1/loads",
    "/workers",
    "/is_paused",
    "/is_sleeping",
)
TOKENS = {
    "no token": {},
    "an empty token": {"Authorization": "Bearer "},
    "an unknown token": {"Authorization": "Bearer " + "x" * 20},
    "another scheme": {"Authorization": "Basic Z2VuZXJhdGU6YQ=="},
    "a token without a scheme": {"Authorization": bearer("generate")["Authorization"].split()[1]},
    "a token of 60,000 letters": {"Authorization": "Bearer " + "x" * 60_000},
    "a token in Latin-1": {"Authorization": "Bearer \xe9\xff"},
}
POST = b"POST %b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
MIB_16 = b"Content-Length: 16000000\r\n\r\n" + b'{"input_ids": [' + b"1," * 7_999_992 + b" "


def refused(name: str, path: str, status: int | tuple[int, ...] = 401, **more: Any) -> Case:
    more |= {"param": "authorization", "answer_headers": ("WWW-Authenticate",)}
    return Case(name=name, at=At.CLOSED, path=path, status=status, **more)


CASES = [
    *(refused(f"{path} {name}", path, headers=headers, body=GOOD) for path in ("/generate", "/abort_request") for name, headers in TOKENS.items()),
    *(refused(f"{path} by nobody", path, content=b"no JSON") for path in (*GENERATE, *UPDATE)),
    *(refused(f"GET {path} by nobody", path, method="GET") for path in READ),
    *(refused(f"{path} by nobody, with an unknown parameter", f"{path}?a=1", content=b"x") for path in GENERATE),
    *(
        Case(name=f"{path} with the scope generate", at=At.CLOSED, path=path, headers=bearer("generate"), content=b"no JSON", status=403, param="authorization")
        for path in UPDATE
    ),
    *(
        Case(name=f"{path} with the scope update_weights", at=At.CLOSED, path=path, headers=bearer("update_weights"), content=b"no JSON", status=403, param="authorization")
        for path in GENERATE if path != "/abort_request"
    ),
    *(
        Case(name=f"GET {path} with the scope {scope}", at=At.CLOSED, method="GET", path=path, headers=bearer(scope), status=status, param=param)
        for path in READ
        for scope, status, param in (("generate", 200, ""), ("admin", 200, ""), ("update_weights", 403, "authorization"), ("observe", 403, "authorization"))
    ),
    *(
        Case(name=f"{path} with the scope {scope}", at=At.CLOSED, path=path, headers=bearer(scope), content=b"no JSON", param="body")
        for path, scope in (("/generate", "generate"), ("/v1/completions", "generate"), ("/inference/v1/generate", "admin"), ("/pause_generation", "update_weights"), ("/update_weights_from_disk", "admin"))
    ),
    *(Case(name=f"a flush with the scope {scope}", at=At.CLOSED, method="GET", path="/flush_cache", headers=bearer(scope), status=status) for scope, status in (("generate", 403), ("update_weights", 200), ("admin", 200))),
    Case(name="all of one's own requests aborted with the scope generate", at=At.CLOSED, path="/abort_request", headers=bearer("generate"), body={"abort_all": True}, status=200),
    Case(name="no request aborted with the scope generate", at=At.CLOSED, path="/abort_request", headers=bearer("generate"), body={}, status=200),
    Case(name="one request aborted with the scope update_weights", at=At.CLOSED, path="/abort_request", headers=bearer("update_weights"), body={"rid": "a"}, status=200),
    Case(name="all requests aborted with the scope update_weights", at=At.CLOSED, path="/abort_request", headers=bearer("update_weights"), body={"abort_all": True}, status=200),
    Case(name="a stream with a token", at=At.CLOSED, headers=bearer("generate"), body={**GOOD, "stream": True}, status=200, within="[DONE]", without="error"),
    refused("a stream by nobody", "/generate", body={**GOOD, "stream": True}),
    refused("a stream of completions by nobody", "/v1/completions", body={"prompt": [4], "stream": True}),
    refused("a stream of a chat by nobody", "/v1/chat/completions", body={"messages": [], "stream": True}),
    *(
        refused(f"60 bodies of 16 MB for {path} by nobody", path, raw=POST % path.encode() + MIB_16, times=60, status=(401, 0))
        for path in ("/abort_request", "/generate")
    ),
    refused("a body of nobody in chunks", "/generate", raw=POST % b"/generate" + b"Transfer-Encoding: chunked\r\n\r\n" + (b"10000\r\n" + b" " * 2**16 + b"\r\n") * 100),
    refused("a body of nobody that never comes", "/generate", raw=POST % b"/generate" + b"Content-Length: 1000000000\r\n\r\n"),
    refused("a body of nobody that asks first", "/generate", raw=POST % b"/generate" + b"Expect: 100-continue\r\nContent-Length: 1000\r\n\r\n"),
    Case(name="60 headers of 10 MB by nobody", at=At.CLOSED, raw=POST % b"/generate" + b"a: " + b"b" * 10**7, times=60, status=(431, 0)),
    Case(name="a page of the web with a token", at=At.CLOSED, headers={**bearer("generate"), "Origin": "http://example.com"}, body=GOOD, status=200),
    *(Case(name=f"{path} is open to everyone", at=At.CLOSED, method="GET", path=path, status=200) for path in ("/health", "/health_generate", "/liveness")),
    Case(name="a path that is none, by nobody", at=At.CLOSED, path="/nothing", status=404),
]  # fmt: skip
