"""
Token statistics of responses, from which a drafter's head chooses the tokens to cover.

Responses use a small part of a large vocabulary.

Shapes: V vocabulary, D draft tokens.
"""

from copy import deepcopy

import numpy as np
from numpy.typing import ArrayLike, NDArray

Tokens = NDArray[np.int64]

LOST_COVERAGE = 0.01
"""Draft tokens are chosen again once others would cover this much more of what the policy says: about the share of
drafts that can never be right."""


class TokenCounts:
    """
    Counts of the policy's tokens.

    Args:
        vocab_size: Size of its vocabulary.
        recent_tokens: All counts are halved once this many tokens were counted, so that older ones count less; None
            never halves.
    """

    def __init__(self, vocab_size: int, *, recent_tokens: int | None = None) -> None:
        self._counts_V = np.zeros(vocab_size, dtype=np.int64)
        self._recent_tokens = recent_tokens
        self.total = 0
        """Tokens counted, as far as they still count."""

    def add(self, token_ids: ArrayLike) -> None:
        """Count the tokens of a response, of any shape. Ids must be below the vocabulary's size."""
        ids = np.asarray(token_ids).ravel().astype(np.int64, copy=False)
        np.add.at(self._counts_V, ids, 1)
        self.total += len(ids)
        if self._recent_tokens is not None and self.total >= self._recent_tokens:
            self._counts_V //= 2
            self.total = int(self._counts_V.sum())

    def copy(self) -> "TokenCounts":
        """Return a copy that is not affected by later tokens."""
        return deepcopy(self)

    def frequent(self, size: int, before_D: Tokens | None = None) -> Tokens:
        """
        Return this many of the most frequent tokens, or all if there are fewer, ascending.

        Ties are broken by membership in `before_D`, then by lower id, since tokenizers assign these to more frequent
        text.
        """
        vocabulary = len(self._counts_V)
        ranks_V = 2 * self._counts_V
        if before_D is not None:
            ranks_V[before_D[before_D >= 0]] += 1
        if size >= vocabulary:
            return np.arange(vocabulary)
        # Every token has a rank of its own, so that no order depends on the partition.
        ranks_V = ranks_V * vocabulary + np.arange(vocabulary - 1, -1, -1)
        return np.sort(np.argpartition(ranks_V, vocabulary - size)[vocabulary - size :])

    def covering(self, share: float, *, least: int) -> Tokens:
        """
        Return the most frequent tokens that cover this share of the counts, ascending.

        Their number is a power of two, so that it seldom changes, and at least `least`, or all tokens if there are
        fewer.
        """
        sums = np.cumsum(np.sort(self._counts_V)[::-1])
        needed = int(np.searchsorted(sums, share * self.total)) + 1
        return self.frequent(max(least, 1 << (needed - 1).bit_length()))

    def coverage(self, tokens_D: Tokens) -> float:
        """Return the share of the counts that these tokens cover; 1 if there are none. Ids below 0 are ignored."""
        return int(self._counts_V[tokens_D[tokens_D >= 0]].sum()) / self.total if self.total else 1.0

    def better_than(self, tokens_D: Tokens, *, lost: float = LOST_COVERAGE) -> Tokens | None:
        """Return as many tokens that cover at least `lost` more of the counts, or None if these cover them well."""
        best_D = self.frequent(len(tokens_D), tokens_D)
        gained = self.coverage(best_D) - self.coverage(tokens_D)
        return best_D if gained >= lost or bool((tokens_D < 0).any()) else None
