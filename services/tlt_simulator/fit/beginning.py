"""The initial drafter of a recorded run. Pure."""

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
    Return the training tokens of a run's initial drafter, estimated from its acceptance; 0 if there was none.

    A drafter that no trainer of the fleet has published existed before the run. If it is better than `accept_best`, the
    costs are returned with its quality as the new best.

    Args:
        drafters: Published drafters.
        qualities: Acceptance of the drafters.
        costs: Costs with the learning curve.
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
