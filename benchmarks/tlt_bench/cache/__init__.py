"""The hidden-state cache: its throughput against a raw Redis, the reads of its index, and states of 8 bits."""
