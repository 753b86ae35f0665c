"""Attention within the samples of a pack, over the passes of one unrolled training step."""
