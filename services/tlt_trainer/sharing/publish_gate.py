"""
Decides whether a drafter is worth publishing. Pure.

The first one competes with how engines decode without it: plainly, or with n-gram drafts, which cost nothing. At small
batches a round without drafts takes as long as reading the policy's weights, and a drafted token as long as reading the
drafter's. Whether a drafter is used, and when, remains the bandit's decision: this only spares engines the swap.
"""

from math import prod

from tlt_common.drafter.format import DrafterFormat
from tlt_common.drafter.tensors import LAYER
from tlt_trainer.config import PublishSettings
from tlt_trainer.drafter.score import Score


def draft_cost(form: DrafterFormat, policy_layers: int) -> float:
    """
    Return the time of a drafted token in units of a round without drafts: weights read for one, over the other's.

    Those of a block drafter are read once for all tokens of a block.
    """
    weights = {name: prod(shape) for name, shape in form.tensor_shapes().items()}
    layer = sum(count for name, count in weights.items() if name.startswith(LAYER))
    head = form.vocab_size * form.hidden_size
    read = sum(weights.values()) + (0 if form.trains_head else head)
    return read / (form.block_drafts or 1) / (policy_layers * layer + head)


class PublishGate:
    """
    What a trainer compares its drafter with.

    Args:
        settings: By how much it must be better.
        cost: See `draft_cost`.
    """

    def __init__(self, settings: PublishSettings, cost: float) -> None:
        self._settings = settings
        self._cost = cost
        self._running_length = 1.0

    def note(self, accept_length: float) -> None:
        """Record what the engine's last rounds reached, in tokens per request and round; 0: there were none."""
        self._running_length = max(1.0, accept_length)

    def admits(self, own: Score, published: Score | None) -> bool:
        """Compare scores on the same frames; `published` is None while the fleet has no drafter."""
        if published is not None:
            return own.accept_length >= published.accept_length + self._settings.gain
        speed = own.accept_length / (1 + len(own.accepted) * self._cost)
        return speed >= self._settings.first_gain * self._running_length
