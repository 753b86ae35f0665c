"""Rounds to write down and to play."""

from tlt_common.bandit.trace import Round
from tlt_common.domain.strategy import Arm, chain

LONG = chain(7)


def make_round(
    *, at_s: float = 1.0, arm: Arm = LONG, accepted: tuple[int, ...] = (3, 1), elapsed_s: float = 0.5
) -> Round:
    """Make a round that drafted as much as its arm does."""
    drafted = arm.drafted_tokens * len(accepted)
    return Round(at_s=at_s, arm=arm, accepted=accepted, elapsed_s=elapsed_s, drafted=drafted)
