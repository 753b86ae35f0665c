"""Sources of drafts for arms that do not use the learned drafter. Used inside SGLang's processes only."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from torch import Tensor

from tlt_worker.link.settings import LinkSettings

Found = list[list[int]]
"""Draft tokens per request; may be fewer than requested."""


class DraftSource(Protocol):
    """
    Drafts of one kind of arm, found before the round and verified without a drafter pass.

    Batches and results are SGLang's. Rank 0 of a tensor-parallel group looks drafts up; `found` is then broadcast.
    """

    found: Found
    """Drafts of the next drafting round."""

    @property
    def size_bytes(self) -> int:
        """Memory held, for reports."""
        ...

    def find(self, batch: Any, steps: int) -> int:
        """Look up at most `steps` draft tokens for each request; return their total number."""
        ...

    def drafts(self, batch: Any, steps: int) -> Tensor:
        """
        Return `found` as chains [B, steps], int64 on the batch's device, to follow each request's bonus token.

        Missing tokens are padded with unlikely ones: verification is exact for any draft.
        """
        ...

    def launched(self, batch: Any, result: Any) -> None:
        """Record a launched round of any arm."""
        ...

    def processed(self, batch: Any, result: Any) -> None:
        """Record a round's tokens, now that its requests hold them."""
        ...


MakeSource = Callable[[LinkSettings, bool], DraftSource]
"""Makes a source from the engine's settings; the flag tells whether this rank looks drafts up."""

MAKERS: Final[dict[str, MakeSource]] = {}
"""Factory of draft sources, by kind of arm."""


def register(kind: str, make: MakeSource) -> None:
    """
    Register the factory of draft sources for a kind of arm.

    Raises:
        ValueError: The kind already has a source.
    """
    if MAKERS.setdefault(kind, make) is not make:
        raise ValueError(f"arms of kind {kind!r} already have a draft source")
