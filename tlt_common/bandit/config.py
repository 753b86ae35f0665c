"""How a bandit groups, judges and explores."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tlt_common.domain.strategy import OFF, Arm

SPECULATE_BELOW_REQUESTS = 64
"""
From here on nothing drafts. The paper has 32, for trees; short chains may pay for longer, and the bandit finds out at
which batch sizes they do. Rollouts of 32 requests took 14 % longer than with the best fixed arm under a limit of 32,
which lets none draft until the first is done, and 2 % longer under this one (`tlt bench engine --part adaptive`).
"""

VERIFY_TOKENS = 256
"""
Tokens that one verification may take over all requests: 32 requests with 8 tokens each, or 4 with trees of 64.

Up to there an H100 reads weights longer than it computes with them (TLT, Tables 1 and 2: 64 tokens are best for one
request, 48 for 4 to 8, 16 and fewer from 16 on), and the demo's model on a CPU has its best arms below it too.
"""


EPSILON = 0.05
"""
Half of what the paper's code has. On the trace of `tlt bench tuner` 0.02, 0.05 and 0.1 lose the same within chance; the
less is explored the fewer rounds switch (5 of 100 instead of 7).
"""


class Judge(StrEnum):
    """What an arm is worth."""

    PARTS = "parts"
    """Accept length over round time, each remembered for as long as it holds."""
    PAPER = "paper"
    """Median reward of a window of rounds, whatever their batch size."""


class Exploration(StrEnum):
    """Which arm a random choice takes."""

    NEAR = "near"
    """Another than the best, the likelier the less it is behind."""
    UNIFORM = "uniform"
    """Any, as in the paper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditConfig:
    """How to group, judge and explore."""

    epsilon: float = EPSILON
    """Share of choices made at random."""
    window: int = 64
    """Rounds remembered per arm (and batch size, for times)."""
    hold_rounds: int = 4
    """Rounds a choice lasts. Going from off to a chain costs a catch-up of the drafter, so choices are not for one."""
    speculate_below_requests: int = SPECULATE_BELOW_REQUESTS
    """From this many running requests on only off is allowed."""
    group_below_requests: Mapping[int, int] = field(default_factory=dict)
    """Groups of arms by the tokens they verify per request: allowed below so many running requests. A group that is not
    named is allowed as long as all its tokens together stay within VERIFY_TOKENS."""
    judge: Judge = Judge.PARTS
    exploration: Exploration = Exploration.NEAR

    def below_requests(self, arm: Arm) -> float:
        """Return the number of running requests from which on an arm is not allowed; never rises with its tokens."""
        if arm == OFF:
            return float("inf")
        own = self.group_below_requests.get(arm.draft_tokens, VERIFY_TOKENS // arm.draft_tokens + 1)
        return min(own, self.speculate_below_requests)

    def allows(self, arm: Arm, batch: int) -> bool:
        """Whether an arm may run with `batch` requests. Off always may."""
        return batch < self.below_requests(arm)


PAPER = BanditConfig(
    epsilon=0.1,
    window=300,
    hold_rounds=1,
    speculate_below_requests=32,
    judge=Judge.PAPER,
    exploration=Exploration.UNIFORM,
)
"""The paper's policy with the numbers of its code."""
