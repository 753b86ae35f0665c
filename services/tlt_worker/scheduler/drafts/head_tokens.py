"""
Chooses the tokens that a reduced head covers: those that this engine's responses use. Rank 0 chooses for all ranks.

The choice does not affect the distribution of responses and only costs a copy of rows, so it is made early and often.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tlt_common.drafter.token_counts import TokenCounts, Tokens
from tlt_common.telemetry.log import get_logger

log = get_logger(__name__)

RECENT_TOKENS = 2**20
"""As spot trainers count."""
FIRST_TOKENS, EVERY_TOKENS = 512, 2**16
"""Tokens said before the choice is first considered; the number doubles until it is considered every so many."""
LOST_COVERAGE = 0.001
"""Share of what responses say that another choice must cover more: so many drafts can never be right."""


@dataclass(frozen=True, slots=True)
class HeadTokensChosen:
    """The tokens that each rank's head covers from now on."""

    tokens: Sequence[Sequence[int]]


class HeadTokens:
    """
    The tokens that a reduced head covers.

    Args:
        vocab_size: Tokens of the target's vocabulary.
        shard: Rows of the target's head on each rank, of which the last may be padding.
        ranks: Number of ranks.
        covered: Tokens that the head of each rank covers.
    """

    def __init__(self, vocab_size: int, *, shard: int, ranks: int, covered: int) -> None:
        self._begins = [min(vocab_size, rank * shard) for rank in range(ranks + 1)]
        self._counts = [
            TokenCounts(end - begin, recent_tokens=RECENT_TOKENS // ranks)
            for begin, end in zip(self._begins, self._begins[1:], strict=False)
        ]
        self._chosen = [counts.frequent(covered) for counts in self._counts]
        self._said, self._due = 0, FIRST_TOKENS

    @property
    def tokens(self) -> list[list[int]]:
        """The tokens that each rank's head covers."""
        return [(mine + begin).tolist() for mine, begin in zip(self._chosen, self._begins, strict=False)]

    @property
    def coverage(self) -> float:
        """Share of response tokens that the chosen tokens cover."""
        total = sum(counts.total for counts in self._counts)
        found = zip(self._counts, self._chosen, strict=True)
        return sum(counts.total * counts.coverage(mine) for counts, mine in found) / total if total else 1.0

    def said(self, token_ids: Iterable[int]) -> None:
        """Count the tokens of a response."""
        ids: Tokens = np.fromiter(token_ids, dtype=np.int64)
        self._said += len(ids)
        places = np.searchsorted(self._begins, ids, side="right") - 1
        for rank, counts in enumerate(self._counts):
            if (places == rank).any():
                counts.add(ids[places == rank] - self._begins[rank])

    def choose(self) -> list[HeadTokensChosen]:
        """Return the tokens to cover from now on, or None if they are unchanged."""
        if self._said < self._due:
            return []
        self._due = self._said + min(self._said, EVERY_TOKENS)
        pairs = list(zip(self._counts, self._chosen, strict=True))
        better = [counts.better_than(mine, lost=LOST_COVERAGE) for counts, mine in pairs]
        if all(one is None for one in better):
            return []
        self._chosen = [mine if one is None else one for one, (_, mine) in zip(better, pairs, strict=True)]
        log.info("head_tokens_chosen", said=self._said, coverage=round(self.coverage, 4))
        return [HeadTokensChosen(self.tokens)]


def head_tokens_of(drafter: Any) -> HeadTokens | None:
    """Return the tokens that SGLang's model of a drafter covers, or None if its head is not reduced."""
    if not getattr(drafter, "is_reduced", False):
        return None
    shard = drafter.target_head.shape[0]
    chosen = HeadTokens(drafter.config.vocab_size, shard=shard, ranks=drafter.ranks, covered=drafter.covered)
    drafter.cover(chosen.tokens)
    return chosen
