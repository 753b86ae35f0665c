"""The hidden-state cache: its throughput against a raw Redis, and the reads of its index."""
