"""What a journal says of rounds, as the cost model counts them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.arm import Arm, arm_named
from tlt_common.journal.gateway_lines import RoundsLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRounds:
    """Rounds of a minute with one arm, one drafter and about one batch size. Means are over rounds."""

    at_s: float
    arm: Arm
    drafter: int
    policy: int
    rounds: int
    batch: float
    """Requests."""
    kv_tokens: float
    """Tokens in the KV cache, of all requests."""
    round_s: float
    accepted: float
    """Drafts per request."""

    @property
    def requests(self) -> float:
        """Summed over rounds."""
        return self.rounds * self.batch


def observed(lines: Iterable[RoundsLine]) -> tuple[ObservedRounds, ...]:
    """Return what lines say, of arms that this version knows."""
    return tuple(
        ObservedRounds(
            at_s=line.at,
            arm=arm_named(line.arm),
            drafter=line.drafter,
            policy=line.policy,
            rounds=line.rounds,
            batch=requests / line.rounds,
            kv_tokens=line.kv_tokens / line.rounds,
            round_s=line.seconds / line.rounds,
            accepted=line.accepted / requests,
        )
        for line in lines
        if (requests := line.tokens - line.accepted) > 0 and line.seconds > 0.0
    )
