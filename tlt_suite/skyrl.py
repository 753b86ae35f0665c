"""Weights of SkyRL's trainer, published as checkpoints."""

from tlt_common.integrations.skyrl import CheckpointWeights

__all__ = ["CheckpointWeights"]
