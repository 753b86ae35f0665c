"""Rounds of a journal in terms of the cost model. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tlt_common.domain.arm import Arm, arm_named
from tlt_common.journal.gateway_lines import RoundsLine


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRounds:
    """Rounds of one minute with the same arm and drafter and a similar batch size. Means are over rounds."""

    at_s: float
    arm: Arm
    drafter: int
    policy: int
    rounds: int
    batch: float
    """Mean number of requests."""
    kv_tokens: float
    """Mean tokens in the KV cache, over all requests."""
    round_s: float
    accepted: float
    """Mean accepted drafts per request."""

    @property
    def requests(self) -> float:
        """Number of requests, summed over rounds."""
        return self.rounds * self.batch


def observed(lines: Iterable[RoundsLine]) -> tuple[ObservedRounds, ...]:
    """Return the rounds in journal lines, for arms that this version supports."""
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
