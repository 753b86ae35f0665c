"""Arms, strategies and a player for tests of the bandit."""

from hypothesis import strategies as st

from tlt_common.bandit import (
    Bandit,
    BanditConfig,
)
from tlt_common.domain.arm import Arm, ArmWindow, chain
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.tuner import Posterior

SHORT, LONG = chain(3), chain(7)
PATIENT = BanditConfig(epsilon=0.0, hold_rounds=1)
FREE = BanditConfig(epsilon=0.0, hold_rounds=1, exploration_share=1.0)
"""Lets trials cost whatever they do."""
batches = st.integers(1, 200)
seeds = st.integers(0, 2**32)
rewards = st.floats(1e-3, 1e6)


def play(bandit: Bandit, speed: dict[Arm, float], batch: int, rounds: int) -> list[Arm]:
    """Rounds in which each arm earns `speed` tokens per second."""
    chosen = []
    for _ in range(rounds):
        arm = bandit.choose(batch)
        bandit.record(arm, batch, [arm.steps] * batch, (arm.steps + 1) * batch / speed[arm])
        chosen.append(arm)
    return chosen


def posterior(speed: dict[Arm, float], group: int) -> Posterior:
    arms = tuple(
        ArmWindow(
            arm=arm.name,
            group=group,
            rounds=10,
            accepted_tokens=0,
            produced_tokens=10,
            elapsed_s=1.0,
            median_reward=value,
        )
        for arm, value in speed.items()
    )
    return Posterior(drafter_version=DrafterVersion(1), arms=arms)
