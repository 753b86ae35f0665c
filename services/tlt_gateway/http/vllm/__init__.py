"""vLLM's endpoints for pauses and weight updates."""
