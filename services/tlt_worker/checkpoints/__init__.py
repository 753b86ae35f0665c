"""Checkpoints on disk, validated before the engine loads them: policy weights and drafters."""
