"""Rounds to write down and to play."""

from tlt_common.bandit.round_trace import TracedRound
from tlt_common.domain.arm import Arm, chain

LONG = chain(7)


def make_round(
    *, at_s: float = 1.0, arm: Arm = LONG, accepted: tuple[int, ...] = (3, 1), elapsed_s: float = 0.5
) -> TracedRound:
    """Make a round that drafted as much as its arm does."""
    drafted = arm.drafted_tokens * len(accepted)
    return TracedRound(at_s=at_s, arm=arm, accepted=accepted, elapsed_s=elapsed_s, drafted=drafted)
