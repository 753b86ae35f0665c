"""vLLM's protocol: pauses and weights."""
