"""What makes rewards comparable, and what a fleet has learned."""

from dataclasses import dataclass

from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import ArmWindow


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
    """What an engine's bandit saw since the last report."""

    drafter_version: DrafterVersion
    arms: tuple[ArmWindow, ...]
    switches: int = 0
    """Rounds that ran another arm than the round before."""
    index_bytes: int = 0
    """Memory of the texts that n-gram arms retrieve from."""
    recomputed_tokens: int = 0
    """Tokens the target computed again, for requests it had begun to answer."""
    caught_up_tokens: int = 0
    """Tokens the drafter took in afterwards, having skipped them."""
