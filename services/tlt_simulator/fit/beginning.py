"""The drafter that a recorded run began with. Pure."""

from collections.abc import Sequence

from tlt_common.journal.coordinator_lines import DrafterLine
from tlt_simulator.costs.figure import CostFigure, Source
from tlt_simulator.costs.model import CostModel
from tlt_simulator.fit.acceptance import DrafterQuality

MOST_LEARNED = 0.98
"""Share of what can be learned that a drafter from outside the fleet has learned at most: all takes forever."""


def began_with(
    drafters: Sequence[DrafterLine], qualities: Sequence[DrafterQuality], costs: CostModel
) -> tuple[CostModel, float]:
    """
    Return how many tokens the drafter that a run began with has learned from, by what it got accepted; 0: there was
    none.

    A drafter that no trainer of the fleet has made was there before they learned anything. If it is better than the
    best that the costs know, that is the best from now on: the costs are returned with it.

    Args:
        drafters: Published drafters.
        qualities: What drafters got accepted.
        costs: How drafters learn.
    """
    outside = {line.version for line in drafters if not line.tokens}
    seen = [one for one in qualities if one.version in outside]
    if not seen:
        return costs, 0.0
    chance = sum(one.chance * one.requests for one in seen) / sum(one.requests for one in seen)
    if chance > costs.accept_best.value:
        best = CostFigure(value=chance, source=Source.FITTED, of="the drafter that the run began with")
        costs = costs.model_copy(update={"accept_best": best})
    start, best_chance = costs.accept_start.value, costs.accept_best.value
    share = (chance - start) / (best_chance - start) if best_chance > start else MOST_LEARNED
    share = min(MOST_LEARNED, max(0.0, share))
    return costs, costs.learn_half_tokens.value * share / (1.0 - share)
