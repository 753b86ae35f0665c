"""
Spreads logits of some of the target's tokens over its whole vocabulary. Imported inside SGLang's processes only.

Tokens that a drafter's head does not cover get the logit -inf: q is then exact over the covered tokens and zero
elsewhere, all arms share one vocabulary, and the covered tokens may change at run time.

Shapes: ... rows, D columns of the head, T covered tokens, V target vocabulary.
"""

import torch
from torch import Tensor, nn


class SpreadLogits(nn.Module):
    """Spreads logits. No token is covered until `cover` is called."""

    column: Tensor
    """
    Column of each target token in the head's logits, [V]; D if not covered. Filled in place for graphs.
    """

    def __init__(self, vocab_size: int, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.register_buffer("column", torch.full((vocab_size,), columns, dtype=torch.int64), persistent=False)

    def cover(self, tokens_T: Tensor, columns_T: Tensor) -> None:
        """Cover exactly these tokens, in these columns."""
        self.column.fill_(self.columns)
        self.column[tokens_T] = columns_T

    def forward(self, logits: Tensor) -> Tensor:
        """Return logits [..., V] for the head's logits [..., D]."""
        uncovered = logits.new_full((*logits.shape[:-1], 1), float("-inf"))
        return torch.cat([logits, uncovered], dim=-1).index_select(-1, self.column)
