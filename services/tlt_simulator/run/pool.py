"""
Hidden states available to a trainer: those waiting in the cache and those in its pool. Pure.

Repeated states teach less: the n-th pass over the same data is worth exp(-n / R) of the first (arXiv 2305.16264). The
number of distinct states is therefore what matters, which is limited by the sizes of takes, pool and cache. The eighth
of the prompts held out for scoring is neglected.
"""

from math import exp, inf

from tlt_simulator.costs.model import CostModel
from tlt_simulator.scenario import CacheKeys
from tlt_trainer.config import POOL_BYTES
from tlt_trainer.data.intake import TAKE_EVERY_S, TAKE_TOKENS, take_size

MAX_TAKES = 64
"""Between two evaluations, so that short intervals take no longer to simulate."""


class StatePool:
    """
    Args:
        costs: Bytes per state, and the value of repeated passes.
        cache: Settings of the cache.
        pool_bytes: Byte budget of the pool.
        take_tokens: Maximum states per take.
        take_every_s: Seconds between takes.

    Attributes:
        tokens: States in the pool.
        added: Total states added so far.
        passes: Average number of passes over the states in the pool.
    """

    def __init__(
        self,
        costs: CostModel,
        cache: CacheKeys,
        *,
        pool_bytes: int = POOL_BYTES,
        take_tokens: int = TAKE_TOKENS,
        take_every_s: float = TAKE_EVERY_S,
    ) -> None:
        size = costs.state_bytes.value
        self._lasting = costs.lasting_passes.value
        self._limit = pool_bytes / size if size else inf
        self._cached_limit = cache.budget_bytes / size if size else inf
        self._take = take_tokens
        self._every_s = take_every_s
        self._waiting = 0.0
        self._drawn = 0.0
        self._untaken_s = 0.0
        self.tokens = 0.0
        self.added = 0.0
        self.passes = 0.0

    def generated(self, tokens: float) -> None:
        """Add new states to the cache, unless it is full."""
        self._waiting = min(self._cached_limit, self._waiting + tokens)

    def take(self) -> None:
        """Take states as at the start of a lease. Skipped states are not offered again."""
        self._add(self._take)
        self._waiting = 0.0

    def train(self, tokens: float, seconds: float) -> float:
        """Train on this many tokens in this many seconds; return their value in unseen tokens."""
        worth, rate, least_s = 0.0, tokens / seconds, seconds / MAX_TAKES
        while seconds > 0.0:
            part_s = min(seconds, max(least_s, self._every_s - self._untaken_s))
            worth += self._pass(rate * part_s)
            seconds -= part_s
            self._untaken_s += part_s
            if self._untaken_s >= self._every_s:
                self._untaken_s = 0.0
                if size := take_size(self._take, held=int(self.tokens), drawn=int(self._drawn)):
                    self._drawn = 0.0
                    self._add(size)
        return worth

    def _pass(self, tokens: float) -> float:
        """Return the value of the next tokens."""
        if self.tokens < 1.0:
            return 0.0
        before, self.passes = self.passes, self.passes + tokens / self.tokens
        self._drawn += tokens
        if not self._lasting:
            return tokens
        return self.tokens * self._lasting * (exp(-before / self._lasting) - exp(-self.passes / self._lasting))

    def _add(self, size: float) -> None:
        taken = min(size, self._waiting)
        self._waiting -= taken
        self.added += taken
        held = min(self._limit, self.tokens + taken)
        if held:
            new = min(held, taken)
            self.passes *= (held - new) / held
        self.tokens = held
