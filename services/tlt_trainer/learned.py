"""What a learner has learned: its counters, and copies of its weights. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tlt_common.domain.ids import DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCounters:
    """Training that went into these weights, over restarts and by all trainers whose work they contain."""

    steps: int = 0
    tokens: int = 0
    base_version: DrafterVersion = DrafterVersion(0)
    """The published drafter they are based on; 0: none, from scratch."""
    base_steps: int = 0
    base_tokens: int = 0

    @property
    def own_steps(self) -> int:
        """Steps made by this trainer since the base."""
        return self.steps - self.base_steps

    @property
    def own_tokens(self) -> int:
        """Tokens trained on by this trainer since the base."""
        return self.tokens - self.base_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A drafter of the fleet."""

    version: DrafterVersion
    weights: Mapping[str, Tensor]
    steps: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything needed to continue training: copies on the CPU."""

    counters: TrainingCounters
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor]
    base: Mapping[str, Tensor]
    """Empty if the base could not be read."""
    optimizer: Mapping[str, Tensor]
