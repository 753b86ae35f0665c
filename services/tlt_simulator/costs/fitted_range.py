"""The ranges of what a cost model was fitted to. Pure."""

from pydantic import Field

from tlt_common.config.base import Frozen


class FittedRange(Frozen):
    """What was seen in a journal, at most unless stated otherwise."""

    requests: float = Field(ge=0)
    """Of a worker at a time."""
    kv_tokens: float = Field(ge=0)
    """In a worker's KV cache."""
    tokens: int = Field(ge=0)
    """Of a response."""
    chances: tuple[float, float] | None = None
    """Least and most probability that a drafter's first draft was accepted; null: no drafter was used."""
    learned: int = Field(0, ge=0)
    """Tokens that the last drafter had learned from."""
    workers: int = Field(ge=1)
