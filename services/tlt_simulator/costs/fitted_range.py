"""Ranges of the data to which a cost model was fitted. Pure."""

from pydantic import Field

from tlt_common.config.base import Frozen


class FittedRange(Frozen):
    """Maxima in the fitted journal, unless stated otherwise."""

    requests: float = Field(ge=0)
    """Concurrent requests of a worker."""
    kv_tokens: float = Field(ge=0)
    """Tokens in a worker's KV cache."""
    tokens: int = Field(ge=0)
    """Tokens of a response."""
    chances: tuple[float, float] | None = None
    """Lowest and highest acceptance probability of a drafter's first draft; null if no drafter was used."""
    learned: int = Field(0, ge=0)
    """Tokens that the last drafter had learned from."""
    workers: int = Field(ge=1)
