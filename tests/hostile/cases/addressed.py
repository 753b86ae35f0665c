"""Paths, methods and query parameters."""

from tests.hostile.case import Case

GOOD = {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}
QUERIES = (
    "stream=false",
    "rid=a",
    "n=1000000000",
    "max_new_tokens=2",
    "stream",
    "=",
    "%",
    "%zz",
    "%00",
    "%ED%A0%80",
    "a=1&a=2",
)
READ = (
    "/v1/models", "/server_info", "/get_server_info", "/model_info", "/get_model_info", "/weight_version", "/get_weight_version",
    "/v1/loads", "/workers", "/is_paused", "/is_sleeping", "/get_world_size",
)  # fmt: skip
HEALTH = ("/health", "/health_generate", "/liveness")
POSTED = (
    "/generate", "/v1/completions", "/v1/chat/completions", "/v1/chat/completions/render", "/inference/v1/generate", "/tokenize",
    "/detokenize", "/announce", "/abort_request", "/pause_generation", "/continue_generation", "/update_weights_from_disk",
    "/update_weights", "/init_weights_update_group", "/destroy_weights_update_group", "/update_weights_from_distributed", "/fetch_weights",
    "/update_weights_from_tensor", "/init_weight_transfer_engine", "/pause", "/resume", "/sleep", "/wake_up", "/pull_weights",
    "/load_lora_adapter", "/load_lora_adapter_from_tensors", "/unload_lora_adapter", "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter", "/skyrl/v1/load_lora_adapter",
)  # fmt: skip

CASES = [
    *(Case(name=f"/generate?{query}", path=f"/generate?{query}", body=GOOD, param=query.partition("=")[0][:1] if query[0].isalpha() else "") for query in QUERIES),
    *(Case(name=f"{path}?stream=true", path=f"{path}?stream=true", body={}, param="stream") for path in POSTED),
    *(Case(name=f"{path}?a=1", method="GET", path=f"{path}?a=1", param="a") for path in (*READ, *HEALTH)),
    *(Case(name=f"{path} with a body", method="GET", path=path, body={"a": 1}, param="a") for path in READ),
    *(Case(name=f"{path} with an empty body", method="GET", path=path, body={}, status=200) for path in READ),
    *(Case(name=f"{path} with a body that is no JSON", method="GET", path=path, content=b"x", param="body") for path in READ),
    *(Case(name=f"GET {path}", method="GET", path=path, status=405, answer_headers=("Allow",)) for path in POSTED),
    *(Case(name=f"{method} /generate", method=method, status=405, body=GOOD) for method in ("PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE")),
    Case(name="HEAD /health", method="HEAD", path="/health", status=(200, 405)),
    Case(name="CONNECT", raw=b"CONNECT localhost:80 HTTP/1.1\r\nHost: a\r\n\r\n", status=(400, 404, 405)),
    Case(name="a method that is none", raw=b"FETCH /generate HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case(name="a method in small letters", raw=b"post /generate HTTP/1.1\r\nHost: a\r\n\r\n"),
    Case(name="a method of a million letters", raw=b"A" * 10**6, status=(400, 0)),
    *(
        Case(name=f"path {path[:40]}", method="GET", path=path, status=404)
        for path in (
            "/", "//", "/generate/", "//generate", "/Generate", "/generate/../health", "/%2e%2e/etc/passwd", "/health/", "/v1",
            "/openapi.json", "/docs", "/redoc", "/metrics", "/%", "/%zz", "/%00", "/%0d%0aSet-Cookie:a=b", "/%ff", "/%ED%A0%80",
            "/a" * 10_000, "/v1/completions%00", "/*", "/http://a/", "/;a=b", "/.git/config",
        )
    ),
    Case(name="a path of a fragment", method="GET", path="/v1/models#a", status=(200, 400, 404)),
    Case(name="an absolute address", method="GET", path="http://localhost/v1/models", status=200),
    Case(name="an absolute address of another host", method="GET", path="http://example.com/nothing", status=404),
    Case(name="an address without a host", method="GET", path="http:///v1/models", status=(400, 404)),
    Case(name="an address with a port that is none", method="GET", path="http://a:99999999/v1/models", status=(400, 404)),
    Case(name="an asterisk", method="OPTIONS", path="*", status=(400, 404, 405)),
    Case(name="a path without a slash", method="GET", path="generate", status=(400, 404)),
    Case(name="a path in Latin-1", raw=b"GET /caf\xe9 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", status=(400, 404)),
    Case(name="a path in UTF-8", raw="GET /café HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode(), status=(400, 404)),
    Case(name="a query of 60 KiB", path=f"/generate?{'a' * 60_000}", body=GOOD),
    Case(name="a query of 10,000 parameters", path=f"/generate?{'a&' * 10_000}", body=GOOD),
    Case(name="/pause?mode=abort&mode=keep", path="/pause?mode=abort&mode=keep", param="mode"),
    Case(name="/pause?mode=", path="/pause?mode=", param="mode"),
    Case(name="/pause?mode=stop", path="/pause?mode=stop", param="mode"),
    Case(name="/pause?mode of a million letters", path=f"/pause?mode={'a' * 50_000}", param="mode"),
    Case(name="/pause?clear_cache=perhaps", path="/pause?clear_cache=perhaps", param="clear_cache"),
    Case(name="/pause with a body", path="/pause", body={"mode": "keep"}, param="mode"),
    Case(name="/resume with a body", path="/resume", body={"mode": "keep"}, param="mode"),
    Case(name="/sleep with a body", path="/sleep", body={"level": 1}, param="level"),
    Case(name="/finish_session without an id", path="/finish_session", param="session_id"),
    Case(name="/finish_session twice", path="/finish_session?session_id=a&session_id=b", param="session_id"),
    Case(name="/finish_session in the body", path="/finish_session", body={"session_id": "a"}, param="session_id"),
    Case(name="/finish_session beside the body", path="/finish_session?session_id=a", body={"session_id": "b"}, param="session_id"),
    Case(name="/finish_session of a long id", path=f"/finish_session?session_id={'a' * 5000}", param="session_id"),
    Case(name="/finish_session of no Unicode", path="/finish_session?session_id=%ED%A0%80", status=(200, 400)),
    Case(name="/finish_session", path="/finish_session?session_id=a", status=200),
    *(
        Case(name=f"{path} {address}", path=path, body={field: address}, param=field)
        for path, field in (("/workers", "url"), ("/update_weights", "weight_dir"), ("/update_weights_from_disk", "model_path"))
        for address in ("http://[::1", "http://[", "//[x]/", "file://[/a")
    ),
    *(
        Case(name=f"/workers url {address[:40]}", path="/workers", body={"url": address}, param="url")
        for address in ("", "a", "http://", "http://example.com", "http://a:99999999", "http://localhost@example.com", "\x00", "http://\x00", "😀" * 1000)
    ),
    *(
        Case(name=f"{path} of {address[:40]!r}", path=path, body={field: address, **more}, param=field)
        for path, field, more in (
            ("/update_weights_from_disk", "model_path", {}),
            ("/update_weights", "weight_dir", {}),
            ("/fetch_weights", "sync_dir", {"target_version": 5}),
        )
        for address in ("\x00", "/a\x00b", "file://%00", "a" * 10_000, "")
    ),
]  # fmt: skip
