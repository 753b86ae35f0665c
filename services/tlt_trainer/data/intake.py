"""How many states a trainer takes from the cache at a time. Pure."""

MIN_TOKENS = 256
"""Take nothing for fewer tokens: no frame would fit."""


def take_size(limit: int, *, held: int, drawn: int) -> int:
    """
    Return how many tokens the next take of a lease asks for: what the pool lacks, or what was trained on meanwhile.

    Args:
        limit: Tokens of a take at most; also what the pool should hold at least.
        held: Tokens in the pool to train on.
        drawn: Tokens trained on since the last take.
    """
    if held < limit:
        return limit
    return min(limit, drawn) if drawn >= MIN_TOKENS else 0
