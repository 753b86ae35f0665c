"""The choice of an arm for one round."""

from dataclasses import dataclass

from tlt_common.domain.arm import Arm
from tlt_common.domain.ids import DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChoice:
    """Made when the round is launched; its reward is recorded when the round is processed."""

    arm: Arm
    drafted: int | None
    """Draft tokens found for all requests; None: as many as the arm drafts."""
    launched_s: float
    """On the switch's clock."""
    drafter_version: DrafterVersion
    """Latest drafter at launch."""
    kv_tokens: int = 0
    """Tokens that the requests of the round have in the KV cache; 0: not counted."""
