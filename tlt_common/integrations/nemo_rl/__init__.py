"""
NeMo-RL with the suite as its generation back end (written for NVIDIA-NeMo/RL at commit 7ea279abfb).

NeMo-RL creates its back ends by name, from a fixed list. `install` puts `TltGeneration` in the place of its class for
vLLM, and `TltWeightSynchronizer` in the place of those that send weights to vLLM; the configuration still says `vllm`.
No module here imports NeMo-RL, Ray or torch before NeMo-RL calls it.
"""

from tlt_common.integrations.nemo_rl.generation import TltGeneration
from tlt_common.integrations.nemo_rl.installed import install
from tlt_common.integrations.nemo_rl.weights import TltWeightSender, TltWeightSynchronizer

__all__ = ["TltGeneration", "TltWeightSender", "TltWeightSynchronizer", "install"]
