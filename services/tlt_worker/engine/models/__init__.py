"""Models of ours that SGLang finds by the name of their architecture (its SGLANG_EXTERNAL_MODEL_PACKAGE)."""
