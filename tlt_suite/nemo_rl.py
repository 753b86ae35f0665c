"""NeMo-RL with the suite as its generation back end."""

from tlt_common.integrations.nemo_rl import TltCheckpointEngine, TltGeneration, TltWeightSynchronizer, install

__all__ = ["TltCheckpointEngine", "TltGeneration", "TltWeightSynchronizer", "install"]
