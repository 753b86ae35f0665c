"""NeMo-RL with the suite as its generation back end."""

from tlt_common.integrations.nemo_rl import TltGeneration, TltWeightSender, TltWeightSynchronizer, install

__all__ = ["TltGeneration", "TltWeightSender", "TltWeightSynchronizer", "install"]
