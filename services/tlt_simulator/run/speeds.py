"""
Decoding speed of workers, from the arms that the product's bandit runs at a batch size and their costs. Pure.

Running the bandit for every round of a fleet would take longer than the real run. It runs once for each power of two of
the batch size and each quality of the drafter, from scratch, for the minimum number of rounds that a drafter stays the
newest. The resulting shares of its arms are then used, so that exploration costs as much as in the product.
"""

from collections import Counter
from random import Random
from typing import NamedTuple

from tlt_common.bandit import Bandit, bucket
from tlt_common.domain.arm import OFF, Arm
from tlt_simulator.scenario import Scenario

ROUNDS = 256
"""Rounds of the bandit in each situation."""
GRID = 50
"""Resolution of qualities: a fiftieth."""
KV_TOKENS = 4096
"""Tokens of a request in the KV cache while the bandit runs: they weigh the same for all arms."""

KV_SLOPE = 1e6
"""Tokens from which the time of one is derived; all parts of a round are proportional to them."""


class RoundSpeed(NamedTuple):
    """Decoding speed of a batch: a mean round takes `base_s` + `kv_token_s` for each token in the KV cache."""

    base_s: float
    kv_token_s: float
    length: float
    """Mean tokens per request and round."""


class Speeds:
    """
    Args:
        scenario: The simulated scenario, with costs of rounds, and arms that fit.
    """

    def __init__(self, scenario: Scenario) -> None:
        self._costs, self._arms, self._config = scenario.costs, scenario.arms, scenario.engine.bandit
        self._terms = scenario.costs.terms
        self._seed = scenario.seed
        self._shares: dict[tuple[int, int], tuple[tuple[Arm, float], ...]] = {}
        self._speeds: dict[tuple[int, int], RoundSpeed] = {}

    def of(self, batch: int, quality: float | None) -> RoundSpeed:
        """Return the speed for this many requests with a drafter of this quality; None for no drafter."""
        key = (batch, -1 if quality is None else round(quality * GRID))
        if (speed := self._speeds.get(key)) is None:
            speed = self._speeds[key] = self._mean(batch, quality)
        return speed

    def _mean(self, batch: int, quality: float | None) -> RoundSpeed:
        level = -1 if quality is None else round(quality * GRID)
        usable = tuple(arm for arm in self._arms if quality is not None or not arm.needs_drafter)
        allowed = tuple(arm for arm in usable if self._config.allows(arm, batch))
        if allowed in {(), (OFF,)}:
            shares: tuple[tuple[Arm, float], ...] = ((OFF, 1.0),)
        else:
            key = (bucket(batch), level)
            if (known := self._shares.get(key)) is None:
                known = self._shares[key] = self._played(bucket(batch), quality or 0.0, usable)
            shares = tuple((arm, share) for arm, share in known if arm in {OFF, *allowed}) or ((OFF, 1.0),)
        total = sum(share for _, share in shares)
        base_s = sum(share * self._terms.round_s(arm, batch, 0.0) for arm, share in shares) / total
        full_s = sum(share * self._terms.round_s(arm, batch, KV_SLOPE) for arm, share in shares) / total
        length = sum(share * (1.0 + self._costs.accepted(arm, quality or 0.0)) for arm, share in shares) / total
        return RoundSpeed(base_s=base_s, kv_token_s=(full_s - base_s) / KV_SLOPE, length=length)

    def _played(self, group: int, quality: float, arms: tuple[Arm, ...]) -> tuple[tuple[Arm, float], ...]:
        """Return the arms' shares of a bandit's rounds."""
        chance = Random(f"{self._seed}/{group}/{round(quality * GRID)}")
        bandit, counts = Bandit(arms, self._config, self._seed), Counter[Arm]()
        elapsed_s = {arm: self._terms.round_s(arm, group, group * KV_TOKENS) for arm in {OFF, *arms}}
        chances = {arm: self._costs.chances(arm, quality) for arm in {OFF, *arms}}
        for _ in range(ROUNDS):
            arm = bandit.choose(group)
            counts[arm] += 1
            bandit.record(arm, group, [_drawn(chances[arm], chance) for _ in range(group)], elapsed_s[arm])
        return tuple((arm, count / ROUNDS) for arm, count in counts.items())


def _drawn(chances: tuple[float, ...], chance: Random) -> int:
    """Draw the number of accepted drafts of a request."""
    for place, accepts in enumerate(chances):
        if chance.random() >= accepts:
            return place
    return len(chances)
