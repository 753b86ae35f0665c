"""The training state of a learner: counters and copies of weights. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from tlt_common.domain.ids import DrafterVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCounters:
    """Training contained in the weights, across restarts and all contributing trainers."""

    steps: int = 0
    tokens: int = 0
    base_version: DrafterVersion = DrafterVersion(0)
    """The published drafter they are based on; 0 if they were trained from scratch."""
    base_steps: int = 0
    base_tokens: int = 0

    @property
    def own_steps(self) -> int:
        """Steps of this trainer since the base."""
        return self.steps - self.base_steps

    @property
    def own_tokens(self) -> int:
        """Tokens that this trainer trained on since the base."""
        return self.tokens - self.base_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The fleet's drafter."""

    version: DrafterVersion
    weights: Mapping[str, Tensor]
    steps: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The complete training state, as copies on the CPU."""

    counters: TrainingCounters
    weights: Mapping[str, Tensor]
    average: Mapping[str, Tensor]
    base: Mapping[str, Tensor]
    """Weights of the base; empty if it could not be read."""
    optimizer: Mapping[str, Tensor]
