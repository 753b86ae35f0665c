"""
How many drafts a round gets accepted, by the kind of its arm. Pure.

A drafter's *quality* is the probability that its first draft is accepted. The draft at place n of a path, counted from
0, is accepted with quality ** (decay ** -n) if those before it were: at a quality of 0.7 and a decay of 0.9 a little
less at each place, at a quality of 1 always.

A tree verifies the nodes of greatest probability (EAGLE-2, arXiv 2406.16858). One of the first r branches of a node is
accepted with probability 1 - (1 - chance) ** (r ** narrowing), and the accept length is 1 plus the sum of the
probabilities of all nodes. `published.accept_lengths` has what decay and narrowing are fitted to.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush

from tlt_common.domain.arm import Arm


def chain_chances(quality: float, decay: float, steps: int) -> tuple[float, ...]:
    """Return, for each place of a chain, the probability that its draft is accepted if those before it were."""
    if quality in {0.0, 1.0}:
        return (quality,) * steps
    if decay == 0.0:
        return (quality, *[0.0] * steps)[:steps]
    # Of a decay near 0 the exponent would be larger than a float can be.
    return tuple(float(quality ** math.exp(min(-place * math.log(decay), 700.0))) for place in range(steps))


@lru_cache(maxsize=4096)
def tree_chances(arm: Arm, quality: float, decay: float, narrowing: float) -> tuple[float, ...]:
    """Return, for each depth of a tree, the probability that a node there is accepted if one above it was."""
    reached = [0.0] * arm.steps
    for probability, depth in _nodes(arm, chain_chances(quality, decay, arm.steps), narrowing):
        reached[depth] += probability
    above = [1.0, *reached[:-1]]
    return tuple(here / before if before else 0.0 for here, before in zip(reached, above, strict=True))


def _nodes(arm: Arm, chances: tuple[float, ...], narrowing: float) -> Iterator[tuple[float, int]]:
    """Yield probability and depth of the nodes that are verified, the most probable first."""

    def branch(depth: int, rank: int) -> float:
        missed = 1.0 - chances[depth]
        return float(missed ** ((rank - 1) ** narrowing) - missed ** (rank**narrowing))

    # Negative probability, depth and rank of a candidate, and the probability of the node above it.
    candidates = [(-branch(0, 1), 0, 1, 1.0)]
    for _ in range(arm.drafted_tokens):
        negative, depth, rank, above = heappop(candidates)
        yield -negative, depth
        if rank < arm.topk:
            heappush(candidates, (-above * branch(depth, rank + 1), depth, rank + 1, above))
        if depth + 1 < arm.steps:
            heappush(candidates, (negative * branch(depth + 1, 1), depth + 1, 1, -negative))
        if not candidates:
            return
