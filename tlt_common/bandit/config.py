"""Parameters of the bandit."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tlt_common.bandit.exploration import EXPLORATION_SHARE
from tlt_common.domain.arm import OFF, Arm

SPECULATE_BELOW_REQUESTS = 64
"""
Speculation is disabled at or above this many running requests. The paper uses 32, for trees; short chains may pay
off beyond, and the bandit finds out at which batch sizes they do. Rollouts of 32 requests took 14 % longer than
with the best fixed arm at a limit of 32, which permits no drafts until the first request is done, and 2 % longer at
this one (`tlt bench engine --part adaptive`). On H100s, 32 takes runs of a 32B model 7 % longer, and 128 as long
(`tlt simulate sweep --over engine.speculate_below_requests=…`, docs/results/sweeps.md).
"""

VERIFY_TOKENS = 256
"""
Maximum number of tokens per verification, over all requests: 32 requests with 8 tokens each, or 4 with trees of 64.

Below it, reading weights takes an H100 longer than computing with them (TLT, Tables 1 and 2: 64 tokens are best for
one request, 48 for 4 to 8, at most 16 from 16 requests). On a CPU, the best arms of the demo's model are below it
too. In simulated runs on H100s, 128 tokens are 3 to 13 % slower, and 512 are 1 to 2 % faster, but take a tenth of the
KV cache for CUDA graphs (`tlt simulate sweep --over engine.group_below_requests=…`, docs/results/sweeps.md).
"""


EPSILON = 0.05
"""
Half the value of the paper's code. On the trace of `tlt bench tuner`, 0.02, 0.05 and 0.1 lose the same within
chance; with less exploration, fewer rounds switch (5 of 100 instead of 7).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BanditConfig:
    """Parameters of the bandit."""

    epsilon: float = EPSILON
    """Share of random choices, as far as `exploration_share` allows."""
    exploration_share: float = EXPLORATION_SHARE
    """Maximum share of round time that may be lost to arms other than the best."""
    window: int = 64
    """Rounds remembered per arm (and per batch size, for times)."""
    hold_rounds: int = 4
    """Rounds per choice. More than one, since switching from off to a chain costs a catch-up of the drafter."""
    speculate_below_requests: int = SPECULATE_BELOW_REQUESTS
    """Disable speculation at or above this many running requests."""
    group_below_requests: Mapping[int, int] = field(default_factory=dict)
    """
    Limits of running requests by the tokens an arm verifies per request: such arms are allowed below the limit.
    Others are allowed while their tokens over all requests stay within VERIFY_TOKENS.
    """

    def below_requests(self, arm: Arm) -> float:
        """
        Return the number of running requests at or above which an arm is not allowed. Never increases with the arm's
        tokens.
        """
        if arm == OFF:
            return float("inf")
        own = self.group_below_requests.get(arm.draft_tokens, VERIFY_TOKENS // arm.draft_tokens + 1)
        return min(own, self.speculate_below_requests)

    def allows(self, arm: Arm, batch: int) -> bool:
        """Whether an arm is allowed with `batch` running requests. Off is always allowed."""
        return batch < self.below_requests(arm)
