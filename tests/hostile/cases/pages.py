"""Pages of the web that use a browser to call a gateway without tokens, as `tlt up` starts it."""

from tests.hostile.case import Case

GOOD = {"input_ids": [4], "sampling_params": {"max_new_tokens": 2}}
PATHS = ("/generate", "/announce", "/v1/completions", "/v1/chat/completions", "/abort_request", "/pause_generation", "/update_weights_from_disk",
         "/update_weights", "/init_weights_update_group", "/pause", "/resume", "/flush_cache", "/release_memory_occupation", "/finish_session",
         "/load_lora_adapter", "/v1/load_lora_adapter")  # fmt: skip
MOZILLA = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


def refused(name: str, path: str, header: str, headers: dict[str, str], method: str = "POST") -> Case:
    body = {} if method == "GET" else {"content": b'{"a": 1}'}
    return Case(name=name, path=path, method=method, headers=headers, status=403, param=header, **body)  # type: ignore[arg-type]


CASES = [
    *(refused(f"{path} of another site", path, "Origin", {"Origin": "https://example.com"}) for path in PATHS),
    *(refused(f"{path} of a form", path, "Origin", {"Origin": "null", "Content-Type": "text/plain"}) for path in PATHS),
    *(
        refused(f"{path} after its name was bound to this machine", path, "Origin", {"Origin": "http://example.com:7703", "Host": "example.com:7703"})
        for path in PATHS
    ),
    *(
        refused(f"/generate {site}", "/generate", "Sec-Fetch-Site", {"Sec-Fetch-Site": site})
        for site in ("cross-site", "same-site", "same-origin", "x")
    ),
    *(
        refused(f"GET {path} as an image", path, "Sec-Fetch-Site", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"}, "GET")
        for path in ("/v1/models", "/server_info", "/workers", "/flush_cache", "/release_memory_occupation")
    ),
    *(
        refused(f"GET {path} by an old browser", path, "User-Agent", {"User-Agent": MOZILLA}, "GET")
        for path in ("/flush_cache", "/release_memory_occupation", "/resume_memory_occupation")
    ),
    *(
        refused(f"GET /server_info of {host}", "/server_info", "Host", {"Host": host}, "GET")
        for host in ("example.com", "example.com:7703", "127.0.0.1.example.com", "localhost.example.com", "a.b")
    ),
    *(
        Case(name=f"a program that calls {host}", headers={"Host": host}, body=GOOD, status=200)
        for host in ("127.0.0.1:7703", "localhost", "[::1]:7703", "trainer-0", "a.localhost:80", "10.0.0.1")
    ),
    Case(name="an address typed by hand", method="GET", path="/v1/models", headers={"Sec-Fetch-Site": "none", "User-Agent": MOZILLA}, status=200),
    Case(name="preflight", method="OPTIONS", headers={"Origin": "https://example.com", "Access-Control-Request-Method": "POST"}, status=405),
]  # fmt: skip
