"""Models of the suite, which SGLang finds by architecture name (its SGLANG_EXTERNAL_MODEL_PACKAGE)."""
