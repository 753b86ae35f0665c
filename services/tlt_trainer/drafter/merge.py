"""
Merging drafters that several trainers trained independently from the same start (local SGD without synchronisation).

All start equal (`Drafter` is seeded) and follow the newest published drafter, so their weights stay close enough to be
averaged. Measured on the demo's model, two trainers with 20 k tokens each on different data, expected tokens per round
of a chain of 3: from scratch 2.22 and 2.20 alone, 2.26 their mean; from 40 k tokens 3.00 and 3.10 alone, 3.11 their
mean, 3.01 the sum of one and half the other's progress, 2.72 the sum of both.
"""

from collections.abc import Mapping

from torch import Tensor

from tlt_common.drafter.tensors import HEAD, MAP
from tlt_trainer.drafter.vocabulary import rows_for, tokens_of


def share_of(own_tokens: int, others_tokens: int) -> float:
    """Return the weight of the own drafter: its share of the tokens that both were trained on since they were equal."""
    if others_tokens <= 0:
        return 0.5  # not trained from our base: token counts are not comparable
    return own_tokens / (own_tokens + others_tokens)


def fitted(own: Mapping[str, Tensor], newest: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """
    Return own weights that can be averaged with the newest, tensor by tensor.

    An EAGLE-3 drafter gets the newest's draft tokens; a row of its head that only the newest has is taken from there.
    """
    if MAP not in newest:
        return own
    device = own[HEAD].device
    there = {name: newest[name].to(device) for name in (HEAD, MAP)}
    head = rows_for(tokens_of(there[MAP]), own[HEAD], tokens_of(own[MAP]), there[HEAD])
    return {**own, HEAD: head, MAP: there[MAP]}


def mean_of(own: Tensor, newest: Tensor, share: float) -> Tensor:
    """Return the weighted mean of both, on the device of `own`, of which `share` is the weight; of maps the newest."""
    placed = newest.to(own.device)
    return placed.lerp(own, share) if own.is_floating_point() else placed
