"""The hidden-state cache: stores frames within a byte budget and serves training batches."""
