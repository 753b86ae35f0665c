"""
The graphs arms need, and which arms share them.

A round has three stages with graphs of their own: the drafter's steps, verification by the target, and the drafter's
extend over what was accepted. In SGLang 0.5.23 each stage is captured by one runner for a list of batch sizes.
"""

from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.strategy import Arm


class Stage(StrEnum):
    """Part of a round that is captured by itself."""

    VERIFY = "verify"
    """The target over all tokens to verify (`decode_cuda_graph_runner`)."""
    DRAFT = "draft"
    """The drafter's steps one after the other (`eagle_draft_cuda_graph_runner`)."""
    EXTEND = "extend"
    """The drafter over what was accepted (`eagle_draft_extend_cuda_graph_runner`)."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Runner:
    """
    One capture's shape: arms of which it is equal share the graphs.

    Verification and extend depend on the tokens to verify, and on whether they are a tree (attention is planned
    differently then). The drafter's steps depend on steps and top-k, on whether the drafts are sampled, and for a tree
    on its nodes, since the choice of the best ones is captured with them.
    """

    stage: Stage
    draft_tokens: int
    topk: int = 1
    steps: int = 0
    sampled: bool = False

    @property
    def is_tree(self) -> bool:
        """Whether a request's tokens branch."""
        return self.topk > 1

    @property
    def name(self) -> str:
        """For people."""
        if self.stage is not Stage.DRAFT:
            return f"{self.stage} {self.draft_tokens}{' (tree)' if self.is_tree else ''}"
        shape = f"{self.steps}x{self.topk}-{self.draft_tokens}" if self.is_tree else f"{self.steps}"
        return f"{self.stage} {shape}{' sampled' if self.sampled else ''}"


TREE = 2
"""Stands for every top-k above 1 where only that matters."""


def runners_of(arm: Arm) -> tuple[Runner, ...]:
    """Runners a round of this arm can use. Off and n-gram arms need no pass of the drafter."""
    width = min(arm.topk, TREE)
    verify = Runner(stage=Stage.VERIFY, draft_tokens=arm.draft_tokens, topk=width)
    if not arm.learned:
        return (verify,)
    extend = Runner(stage=Stage.EXTEND, draft_tokens=arm.draft_tokens, topk=width)
    if arm.steps == 1:
        return (verify, extend)  # the first draft comes from the extend before
    draft = Runner(
        stage=Stage.DRAFT, draft_tokens=arm.draft_tokens, topk=arm.topk, steps=arm.steps, sampled=arm.sampled
    )
    return (verify, draft, extend)
