"""
What kinds of drafters have in common: the interface that loss and learner use.

Parameter names are those of SGLang's checkpoint. Embedding and head of the policy are no part of these modules.

Shapes: P states of a pack, S scored entries, C elements of a captured state, H hidden size, V vocabulary of the policy,
D draft tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from tlt_common.drafter.format import DrafterFormat
from tlt_trainer.drafter import rope

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(queries NPD, keys KPD, values KPD) -> NPD. The caller decides which keys a query attends to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What the policy says at some positions."""

    states: Tensor
    """(S, H), its last hidden states."""
    shares: Tensor
    """(S, D), its probabilities of the draft tokens. They add up to 1 only where it says nothing else."""
    best: Tensor
    """(S,), the draft token that is its most likely token; -1: there is none."""


class AnyDrafter(nn.Module):
    """A drafter of any kind."""

    default_passes: ClassVar[int]
    """Passes of training, each of which reads what the one before it returned."""
    regression_weight: ClassVar[float]
    """Weight of smooth L1 between its states and the policy's; 0: its states are its own."""
    rate_factor: ClassVar[float] = 1.0
    """Of the learning rates of drafters that begin from nothing."""

    frequencies: Tensor

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.form = form
        rotation = rope.rotation_of(form)
        self.register_buffer("frequencies", rotation.frequencies, persistent=False)
        self._rope_scale = rotation.scale

    def drafts(self, passes: int | None = None) -> int:
        """Return for how many consecutive drafts it is trained, if with so many passes. None: as by default."""
        return passes or self.default_passes

    def work(self, passes: int | None = None) -> float:
        """Return how often a state passes through its layers in a step of training."""
        return passes or self.default_passes

    def borrow(self, other: "AnyDrafter") -> None:
        """Use what another drafter of this format has besides its weights."""
        self.frequencies = other.frequencies

    def angles(self, positions_P: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rotary cosines and sines for these positions."""
        return rope.angles(rope.Rotation(frequencies=self.frequencies, scale=self._rope_scale), positions_P)


class DraftModel(AnyDrafter, ABC):
    """
    A drafter of one token after the other, which calls `attend` once per layer, in order.

    Its first pass reads captured states of the policy, later passes its own states.
    """

    @abstractmethod
    def begin(self, captured_PC: Tensor) -> Tensor:
        """Return what the first pass reads, (P, H)."""

    @abstractmethod
    def forward(self, embedded_PH: Tensor, states_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """Return the states of the next positions, (P, H), which the next pass reads; `turn` is that of `angles`."""

    @abstractmethod
    def logits(self, states_SH: Tensor, head_VH: Tensor) -> Tensor:
        """Return the logits of the draft tokens, (S, D), given states that `forward` returned."""

    @abstractmethod
    def targets(self, captured_SC: Tensor, head_VH: Tensor) -> Targets:
        """Return what the policy says, given its states at these positions."""

    def embedded(self, embedded_PH: Tensor, positions_P: Tensor) -> Tensor:  # noqa: ARG002 - of most, nothing is hidden
        """Return what `forward` reads of the embeddings of the next tokens, (P, H)."""
        return embedded_PH
