"""Blocks of a block drafter: all draft tokens from one pass."""

import re
from dataclasses import dataclass

from tlt_common.domain.arm.arm import BLOCK, MAX_STEPS, Arm, register

_NAME = re.compile(r"block-(\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """`block-N`: the first N tokens of a block, sampled from the drafter."""

    name: str = BLOCK
    accepted: str = f"block-N with N from 1 to {MAX_STEPS}"
    needs_drafter: bool = True
    finds_drafts: bool = False

    def name_of(self, arm: Arm) -> str:
        return f"block-{arm.steps}"

    def parse(self, name: str) -> Arm | None:
        found = _NAME.fullmatch(name)
        return block(int(found[1])) if found is not None and 1 <= int(found[1]) <= MAX_STEPS else None

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        """
        Whether `other` is a shorter arm, which verifies the first drafts of the same block and accepts a prefix of
        them.
        """
        return other.kind == arm.kind and other.steps < arm.steps


def block(tokens: int) -> Arm:
    """Return the arm that verifies the first `tokens` of a block."""
    return Arm(tokens, 1, tokens + 1, BLOCK, sampled=True)


register(Block())
