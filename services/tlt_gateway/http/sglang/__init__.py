"""SGLang's native endpoints, as its own server has them (sglang/srt/entrypoints/http_server.py)."""
