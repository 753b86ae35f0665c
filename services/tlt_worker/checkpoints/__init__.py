"""Checkpoints on disk, checked before the engine loads them: policy weights and drafters."""
