"""Trees of the learned drafter: several branches per step."""

import re
from dataclasses import dataclass

from tlt_common.domain.arm.arm import MAX_DRAFT_TOKENS, MAX_STEPS, MAX_TOPK, Arm, register

_NAME = re.compile(r"tree-(\d+)x(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Tree:
    """`tree-SxK-N`: K branches for S steps; the best N nodes are verified."""

    name: str = "tree"
    accepted: str = (
        f"tree-SxK-N with S from 1 to {MAX_STEPS} steps, K from 2 to {MAX_TOPK} branches and N tokens to verify"
    )
    needs_drafter: bool = True
    finds_drafts: bool = False

    def name_of(self, arm: Arm) -> str:
        return f"tree-{arm.steps}x{arm.topk}-{arm.draft_tokens}"

    def parse(self, name: str) -> Arm | None:
        if (found := _NAME.fullmatch(name)) is None:
            return None
        arm = tree(*map(int, found.groups()))
        if not (1 <= arm.steps <= MAX_STEPS and 2 <= arm.topk <= MAX_TOPK):
            return None
        return _checked(arm)

    def tells_of(self, arm: Arm, other: Arm) -> bool:
        del arm, other
        return False


def tree(steps: int, topk: int, draft_tokens: int) -> Arm:
    """Return the arm that grows `topk` branches for `steps` steps and verifies the best `draft_tokens` nodes."""
    return Arm(steps, topk, draft_tokens, "tree")


def _checked(arm: Arm) -> Arm:
    grown = arm.topk + (arm.steps - 1) * arm.topk**2
    limit = min(grown + 1, MAX_DRAFT_TOKENS)
    if not arm.steps < arm.draft_tokens <= limit:
        raise ValueError(
            f"{arm.name!r} verifies {arm.draft_tokens} tokens; accepted: {arm.steps + 1} to {limit} for "
            f"{arm.steps} steps of {arm.topk} branches"
        )
    return arm


register(Tree())
