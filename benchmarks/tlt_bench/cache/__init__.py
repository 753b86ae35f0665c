"""The hidden-state cache: throughput compared to a raw Redis, and reads of its index."""
