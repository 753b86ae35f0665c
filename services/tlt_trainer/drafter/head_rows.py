"""
Rows of the policy's head with which a drafter is trained.

With a large vocabulary, the head costs several times as much as the drafter, and responses use few of its tokens. The
loss therefore compares distributions over the tokens that responses use; drafters are scored with the whole head.

Measured with SmolLM2-135M-Instruct (49,152 tokens, hidden size 576) on one core with bfloat16: 370 states a second with
the whole head, 1,310 with 8,192 rows, 1,490 with 4,096; 2,000 tokens cover 0.995 of its responses to word problems.

Shapes: R chosen rows, V vocabulary, H hidden size.
"""

import torch
from torch import Tensor

from tlt_common.drafter.token_counts import TokenCounts

LEAST = 4096
"""Rows at least: of a smaller head, all."""
COVERED = 0.999
"""Share of the responses' tokens that the rows cover when they are chosen."""
LOST = 0.001
"""They are chosen again when they cover this much less."""


class HeadRows:
    """
    The chosen rows. Initially all rows.

    Args:
        vocab_size: Rows of the whole head.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._tokens_R: Tensor | None = None
        self._whole: Tensor | None = None  # the head that `_rows_RH` were copied from
        self._rows_RH: Tensor | None = None

    def choose(self, counts: TokenCounts) -> None:
        """Choose the rows of the most frequent response tokens, if the previous choice covers too few."""
        if self._vocab_size <= LEAST:
            return
        before_R = self._tokens_R
        if before_R is not None and counts.coverage(before_R.numpy()) >= COVERED - LOST:
            return
        tokens_R = counts.covering(COVERED, least=LEAST)
        self._tokens_R = torch.from_numpy(tokens_R) if len(tokens_R) < self._vocab_size else None
        self.release()

    def release(self) -> None:
        """Free the copy and its source head, because the policy is replaced or the memory is needed."""
        self._whole = self._rows_RH = None

    def of(self, head_VH: Tensor) -> Tensor:
        """Return the chosen rows of a head, (R, H), copying them once."""
        if self._tokens_R is None:
            return head_VH
        if self._rows_RH is None or self._whole is not head_VH:
            self._rows_RH, self._whole = head_VH[self._tokens_R.to(head_VH.device)], head_VH
        return self._rows_RH
