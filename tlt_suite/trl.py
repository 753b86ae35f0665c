"""
Rollouts for TRL's trainers, without vLLM.

`TltRollouts` is for GRPOTrainer and RLOOTrainer, `TltAsyncRollouts` for AsyncGRPOTrainer, which `async_trainer` finds
in the installed TRL.
"""

from tlt_common.integrations.trl import Rollout, TltAsyncRollouts, TltRollouts
from tlt_common.integrations.trl.installed import async_trainer

__all__ = ["Rollout", "TltAsyncRollouts", "TltRollouts", "async_trainer"]
