"""
CUDA graphs that each arm needs, and the arms that share them.

A round has three stages with their own graphs: the drafter's steps, verification by the target, and the drafter's
extend over the accepted tokens. In SGLang 0.5.23 each stage is captured by one runner for a list of batch sizes.
"""

from dataclasses import dataclass
from enum import StrEnum

from tlt_common.domain.arm import Arm


class Stage(StrEnum):
    """Part of a round that is captured separately."""

    VERIFY = "verify"
    """The target over all tokens to verify (`decode_cuda_graph_runner`)."""
    DRAFT = "draft"
    """The drafter's consecutive steps (`eagle_draft_cuda_graph_runner`), or its block (`decode_cuda_graph_runner`)."""
    EXTEND = "extend"
    """The drafter over the accepted tokens (`eagle_draft_extend_cuda_graph_runner`)."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Runner:
    """
    The shape of one capture: arms with equal runners share the graphs.

    Verification and extend depend on the number of tokens to verify, and on whether they form a tree, for which
    attention is planned differently. The drafter's steps depend on steps and top-k, on whether the drafts are sampled,
    and for a tree on its number of nodes, since the selection of the best nodes is captured too.
    """

    stage: Stage
    draft_tokens: int
    topk: int = 1
    steps: int = 0
    sampled: bool = False
    is_block: bool = False
    """Whether it is a block drafter's pass, which all arms share however many drafts they verify."""

    @property
    def is_tree(self) -> bool:
        """Whether a request's tokens branch."""
        return self.topk > 1

    @property
    def name(self) -> str:
        """Human-readable name."""
        if self.is_block:
            return f"{self.stage} block"
        if self.stage is not Stage.DRAFT:
            return f"{self.stage} {self.draft_tokens}{' (tree)' if self.is_tree else ''}"
        shape = f"{self.steps}x{self.topk}-{self.draft_tokens}" if self.is_tree else f"{self.steps}"
        return f"{self.stage} {shape}{' sampled' if self.sampled else ''}"


TREE = 2
"""Represents every top-k above 1 where only that matters."""


def runners_of(arm: Arm) -> tuple[Runner, ...]:
    """Return the runners that a round of this arm can use. Off and n-gram arms have no drafter pass."""
    width = min(arm.topk, TREE)
    verify = Runner(stage=Stage.VERIFY, draft_tokens=arm.draft_tokens, topk=width)
    if not arm.needs_drafter:
        return (verify,)
    if arm.is_block:  # the accepted tokens are projected, a few kernels without a graph
        return (verify, Runner(stage=Stage.DRAFT, draft_tokens=0, is_block=True))
    extend = Runner(stage=Stage.EXTEND, draft_tokens=arm.draft_tokens, topk=width)
    if arm.steps == 1:
        return (verify, extend)  # the first draft comes from the preceding extend
    draft = Runner(
        stage=Stage.DRAFT, draft_tokens=arm.draft_tokens, topk=arm.topk, steps=arm.steps, sampled=arm.sampled
    )
    return (verify, draft, extend)
