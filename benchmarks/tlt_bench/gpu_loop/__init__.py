"""The scheduler loop of GPUs on a CPU, and what a GPU's host would wait for in it."""
