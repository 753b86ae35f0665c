"""
The draft tokens of an EAGLE-3 drafter: those of the policy's tokens that its head covers.

Chosen from what the policy says, since responses use a small part of a large vocabulary, and chosen again when it says
something else. Always ascending, so that trainers which choose the same tokens order them alike.

Shapes: D draft tokens, E draft tokens of another choice, V vocabulary, H hidden size.
"""

from copy import deepcopy

import torch
from torch import Tensor

from tlt_common.errors import WeightsError

LOST_COVERAGE = 0.01
"""Draft tokens are chosen again once others would cover this much more of what the policy says: about the share of
drafts that can never be right. Each change makes new rows of the head begin from the policy's."""


class TokenCounts:
    """
    How often the policy said each token.

    Args:
        vocab_size: Size of its vocabulary.
        recent_tokens: All counts are halved once there are so many, so that older tokens count less; None: never.
    """

    def __init__(self, vocab_size: int, *, recent_tokens: int | None = None) -> None:
        self._counts_V = torch.zeros(vocab_size, dtype=torch.int64)
        self._recent_tokens = recent_tokens
        self.total = 0
        """Tokens counted, as far as they still count."""

    def add(self, token_ids: Tensor) -> None:
        """Count tokens of a response; ids below the vocabulary's size, of any shape."""
        ids = token_ids.flatten().long()
        self._counts_V.index_add_(0, ids, torch.ones_like(ids))
        self.total += len(ids)
        if self._recent_tokens is not None and self.total >= self._recent_tokens:
            self._counts_V //= 2
            self.total = int(self._counts_V.sum())

    def copy(self) -> "TokenCounts":
        """Return a copy that later tokens do not change."""
        return deepcopy(self)

    def frequent(self, size: int, before_D: Tensor | None = None) -> Tensor:
        """
        Return this many of the most frequent tokens, ascending.

        Among equally frequent ones those of `before_D` come first, whose rows have learned, then those of lower id.
        """
        ranks_V = 2 * self._counts_V
        if before_D is not None:
            ranks_V[before_D[before_D >= 0]] += 1
        return ranks_V.argsort(descending=True, stable=True)[:size].sort().values

    def coverage(self, tokens_D: Tensor) -> float:
        """Return the share of what was counted that these tokens cover; 1 if nothing was. Ids below 0 are no token."""
        return int(self._counts_V[tokens_D[tokens_D >= 0]].sum()) / self.total if self.total else 1.0

    def better_than(self, tokens_D: Tensor) -> Tensor | None:
        """Return as many tokens that cover what was counted clearly better; None: these cover it well enough."""
        best_D = self.frequent(len(tokens_D), tokens_D)
        lost = self.coverage(best_D) - self.coverage(tokens_D)
        return best_D if lost >= LOST_COVERAGE or bool((tokens_D < 0).any()) else None


def tokens_of(map_D: Tensor) -> Tensor:
    """Return the policy's token of each draft token, given a drafter's map (`d2t`)."""
    return map_D + torch.arange(len(map_D), device=map_D.device)


def map_of(tokens_D: Tensor) -> Tensor:
    """Return a drafter's map (`d2t`): the policy's token minus the draft token."""
    return tokens_D - torch.arange(len(tokens_D), device=tokens_D.device)


def require_tokens(map_D: Tensor, vocab_size: int) -> None:
    """
    Raises:
        WeightsError: The map leaves the vocabulary, or maps two draft tokens to one token.
    """
    tokens_D = tokens_of(map_D)
    if bool(((tokens_D < 0) | (tokens_D >= vocab_size)).any()):
        raise WeightsError(f"drafter tensor d2t leaves the vocabulary; accepted: tokens 0 to {vocab_size - 1}")
    if len(torch.unique(tokens_D)) != len(tokens_D):
        raise WeightsError("drafter tensor d2t maps two draft tokens to one token; tokens must be unique")


def rows_for(wanted_E: Tensor, rows_DH: Tensor, tokens_D: Tensor, otherwise_EH: Tensor) -> Tensor:
    """Return a row for each wanted token: that of `rows_DH`, whose tokens are `tokens_D`, or else `otherwise_EH`."""
    known = tokens_D >= 0
    size = int(torch.cat((wanted_E, tokens_D)).max()) + 1
    places_V = torch.full((size,), -1, device=tokens_D.device)
    places_V[tokens_D[known]] = torch.arange(len(tokens_D), device=tokens_D.device)[known]
    found_E = places_V[wanted_E]
    return torch.where((found_E >= 0)[:, None], rows_DH[found_E.clamp(min=0)], otherwise_EH)
