"""
Chooses the arm of each round: BEG-MAB, the bucketed epsilon-greedy bandit of TLT (arXiv 2511.16665).

Pure and seeded: the same calls give the same choices. `bandit` chooses, `config` holds its parameters, and `track`
estimates an arm's worth from accept length and round time. `round_trace` records rounds for replay.
"""

from tlt_common.bandit.bandit import Bandit
from tlt_common.bandit.config import EPSILON, SPECULATE_BELOW_REQUESTS, BanditConfig
from tlt_common.bandit.reward import TRIAL_ROUNDS, bucket, reward, weighted_median

__all__ = [
    "EPSILON",
    "SPECULATE_BELOW_REQUESTS",
    "TRIAL_ROUNDS",
    "Bandit",
    "BanditConfig",
    "bucket",
    "reward",
    "weighted_median",
]
