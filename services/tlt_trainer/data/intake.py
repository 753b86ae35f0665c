"""Sizes of takes from the cache. Pure."""

TAKE_TOKENS = 16_384
"""Tokens to request from the cache per call, at most. A drafter learns as well from takes of 4,096 and of 262,144
(docs/results/sweeps.md)."""
TAKE_EVERY_S = 1.0
"""Seconds between such calls while a lease is held. Runs are as fast with 0.3 and with 3, within 1 %
(docs/results/sweeps.md)."""
LOOK_EVERY_S = 5.0
"""Seconds between checks for unseen frames while training is stopped. The checks do not use the device. Runs are as
fast with 1 and with 20 (docs/results/sweeps.md)."""
MIN_TOKENS = 256
"""Take nothing for fewer tokens: no frame would fit."""


def take_size(limit: int, *, held: int, drawn: int) -> int:
    """
    Return the number of tokens that a lease's next take requests: the pool's deficit, or the tokens trained on since
    the last take.

    Args:
        limit: Maximum tokens of a take, and the minimum that the pool should hold.
        held: Training tokens in the pool.
        drawn: Tokens trained on since the last take.
    """
    if held < limit:
        return limit
    return min(limit, drawn) if drawn >= MIN_TOKENS else 0
