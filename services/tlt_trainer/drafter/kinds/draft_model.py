"""
Interface of all kinds of drafters, which loss and learner use.

Parameter names are those of SGLang's checkpoint. Embedding and head of the policy are not part of these modules.

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
    """Targets that the policy defines at some positions."""

    states: Tensor
    """(S, H), the policy's last hidden states."""
    shares: Tensor
    """(S, D), the policy's probabilities of the draft tokens. They add up to less than 1 if it may choose others."""
    best: Tensor
    """(S,), the draft token that is the policy's most likely token; -1 if that is not a draft token."""


class AnyDrafter(nn.Module):
    """A drafter of any kind."""

    default_passes: ClassVar[int]
    """Default number of training passes, each of which reads the output of the previous one."""
    regression_weight: ClassVar[float]
    """Weight of smooth L1 between its states and the policy's; 0 if its states are unrelated to the policy's."""
    rate_factor: ClassVar[float] = 1.0
    """Factor on the learning rates of drafters trained from scratch."""

    frequencies: Tensor

    def __init__(self, form: DrafterFormat) -> None:
        super().__init__()
        self.form = form
        rotation = rope.rotation_of(form)
        self.register_buffer("frequencies", rotation.frequencies, persistent=False)
        self._rope_scale = rotation.scale

    def drafts(self, passes: int | None = None) -> int:
        """Return the number of consecutive drafts to train for, given the number of passes; None uses the default."""
        return passes or self.default_passes

    def work(self, passes: int | None = None) -> float:
        """Return how many times a state passes through its layers in a training step."""
        return passes or self.default_passes

    def borrow(self, other: "AnyDrafter") -> None:
        """Reuse another drafter's buffers; both have this format."""
        self.frequencies = other.frequencies

    def angles(self, positions_P: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rotary cosines and sines for these positions."""
        return rope.angles(rope.Rotation(frequencies=self.frequencies, scale=self._rope_scale), positions_P)


class DraftModel(AnyDrafter, ABC):
    """
    An autoregressive drafter, which calls `attend` once per layer, in order.

    Its first pass reads captured states of the policy, later passes its own states.
    """

    @abstractmethod
    def begin(self, captured_PC: Tensor) -> Tensor:
        """Return the input of the first pass, (P, H)."""

    @abstractmethod
    def forward(self, embedded_PH: Tensor, states_PH: Tensor, turn: tuple[Tensor, Tensor], attend: Attend) -> Tensor:
        """
        Return the states of the next positions, (P, H), which the next pass reads.

        `turn` is the output of `angles`.
        """

    @abstractmethod
    def logits(self, states_SH: Tensor, head_VH: Tensor) -> Tensor:
        """Return the logits of the draft tokens, (S, D), given states that `forward` returned."""

    @abstractmethod
    def targets(self, captured_SC: Tensor, head_VH: Tensor) -> Targets:
        """Return the policy's targets, given its states at these positions."""

    def embedded(self, embedded_PH: Tensor, positions_P: Tensor) -> Tensor:  # noqa: ARG002 - of most, nothing is hidden
        """Return the part of `forward`'s input that derives from the embeddings of the next tokens, (P, H)."""
        return embedded_PH
