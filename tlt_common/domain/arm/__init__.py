"""Arms: the ways in which an engine can run a round. Each kind of arm is a module of `kinds`."""

from tlt_common.domain.arm.arm import MAX_DRAFT_TOKENS, MAX_STEPS, MAX_TOPK, Arm, ArmKind, ArmWindow
from tlt_common.domain.arm.kinds.block import block
from tlt_common.domain.arm.kinds.chain import chain
from tlt_common.domain.arm.kinds.ngram import NGRAM_BYTES, ngram
from tlt_common.domain.arm.kinds.off import OFF
from tlt_common.domain.arm.kinds.tree import tree
from tlt_common.domain.arm.named import DEFAULT_ARMS, arm_named, arms_named

__all__ = [
    "DEFAULT_ARMS",
    "MAX_DRAFT_TOKENS",
    "MAX_STEPS",
    "MAX_TOPK",
    "NGRAM_BYTES",
    "OFF",
    "Arm",
    "ArmKind",
    "ArmWindow",
    "arm_named",
    "arms_named",
    "block",
    "chain",
    "ngram",
    "tree",
]
