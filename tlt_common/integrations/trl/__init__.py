"""
Rollouts for TRL's trainers (written for TRL 1.16.0), without vLLM.

`TltRollouts` is for GRPOTrainer and RLOOTrainer, `TltAsyncRollouts` for AsyncGRPOTrainer.
"""

from tlt_common.integrations.trl.asynchronous import TltAsyncRollouts
from tlt_common.integrations.trl.rollouts import Rollout, TltRollouts

__all__ = ["Rollout", "TltAsyncRollouts", "TltRollouts"]
