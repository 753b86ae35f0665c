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


def merged(own: Mapping[str, Tensor], newest: Mapping[str, Tensor], share: float) -> dict[str, Tensor]:
    """
    Return the weighted mean of both; `share` is the weight of `own`.

    An EAGLE-3 drafter has the newest's draft tokens; a row of its head that only the newest has stays as it is.
    """
    if MAP not in newest:
        return {name: tensor.lerp(own[name], share) for name, tensor in newest.items()}
    head = rows_for(tokens_of(newest[MAP]), own[HEAD], tokens_of(own[MAP]), newest[HEAD])
    fitted = {**own, HEAD: head, MAP: newest[MAP]}
    return {name: t.lerp(fitted[name], share) if t.is_floating_point() else t for name, t in newest.items()}
