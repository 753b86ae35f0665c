"""The scheduler loop of GPUs on a CPU, and the points at which a GPU's host would wait."""
