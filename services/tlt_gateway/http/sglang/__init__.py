"""SGLang's native endpoints, compatible with its own server (sglang/srt/entrypoints/http_server.py)."""
