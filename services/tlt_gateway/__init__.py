"""The public rollout endpoint: queue requests, route them to workers, resume them elsewhere, and update weights."""
