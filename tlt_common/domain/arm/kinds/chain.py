"""Chains of the learned drafter: sequential draft tokens."""

import re
from dataclasses import dataclass

from tlt_common.domain.arm.arm import MAX_STEPS, Arm, register

_NAME = re.compile(r"chain-(\d+)(-top1)?")


@dataclass(frozen=True, slots=True)
class Chain:
    """Drafts sampled from the drafter (`chain-N`), or its most likely tokens (`chain-N-top1`)."""

    name: str = "chain"
    accepted: str = f"chain-N and chain-N-top1 with N from 1 to {MAX_STEPS}"
    needs_drafter: bool = True
    finds_drafts: bool = False

    def name_of(self, arm: Arm) -> str:
        return f"chain-{arm.steps}" if arm.sampled else f"chain-{arm.steps}-top1"

    def parse(self, name: str) -> Arm | None:
        found = _NAME.fullmatch(name)
        if found is None or not 1 <= int(found[1]) <= MAX_STEPS:
            return None
        return chain(int(found[1]), sampled=found[2] is None)

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        """Whether `other` is a shorter chain of the same drafts, which accepts a prefix of the longer one's."""
        return (other.kind, other.sampled) == (arm.kind, arm.sampled) and other.steps < arm.steps


def chain(steps: int, *, sampled: bool = True) -> Arm:
    """Return the arm that drafts `steps` tokens sequentially, sampled or most likely."""
    return Arm(steps, 1, steps + 1, "chain", sampled)


register(Chain())
