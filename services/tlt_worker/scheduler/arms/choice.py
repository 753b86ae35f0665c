"""The choice of an arm for one round."""

from dataclasses import dataclass

from tlt_common.domain.arm import Arm
from tlt_common.domain.ids import DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmChoice:
    """The arm chosen when a round is launched. Its reward is recorded when the round is processed."""

    arm: Arm
    drafted: int | None
    """Draft tokens found for all requests; None if the arm drafts a fixed number."""
    launched_s: float
    """Launch time on the switch's clock."""
    drafter_version: DrafterVersion
    """Latest drafter at launch."""
    kv_tokens: int = 0
    """Tokens of the round's requests in the KV cache; 0 if not counted."""
