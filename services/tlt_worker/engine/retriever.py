"""What a round of retrieved drafts asks for. Imported inside SGLang's processes only."""

from typing import Any, Protocol

from torch import Tensor


class Retriever(Protocol):
    """Drafts without a drafter's pass."""

    def drafts(self, batch: Any, steps: int) -> Tensor:
        """
        Return draft tokens [B, steps], int64 on the batch's device, to follow each request's bonus token.

        `batch` is SGLang's: its requests and, in `batch.spec_info.bonus_tokens` [B], their last tokens. Every rank of
        a tensor-parallel group returns the same. Where less is found the rest are poor guesses: verification is exact
        whatever is drafted.
        """
        ...
