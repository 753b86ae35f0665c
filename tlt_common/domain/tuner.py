"""Keys of pooled rewards, and the fleet's results."""

from dataclasses import dataclass

from tlt_common.domain.arm import ArmWindow
from tlt_common.domain.ids import DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """Rewards are pooled per fleet, model, device and drafter."""

    fleet: str = "default"
    model: str
    device: str
    drafter_version: DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Pooled windows of one drafter version."""

    drafter_version: DrafterVersion
    arms: tuple[ArmWindow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundReport:
    """Rounds recorded by an engine's bandit since its last report."""

    drafter_version: DrafterVersion
    arms: tuple[ArmWindow, ...]
    switches: int = 0
    """Rounds that ran a different arm from the previous round."""
    index_bytes: int = 0
    """Memory used by the n-gram index."""
    recomputed_tokens: int = 0
    """Tokens the target computed again for requests already started."""
    caught_up_tokens: int = 0
    """Tokens the drafter processed later, having skipped them at first."""
    prefilled_tokens: int = 0
    """Tokens of prompts, and of responses begun elsewhere, that the target prefilled."""
    prefill_s: float = 0.0
    """Duration of the prefill rounds in seconds."""
