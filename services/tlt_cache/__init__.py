"""The hidden-state cache: takes frames in, keeps them under a byte budget, hands out training batches."""
