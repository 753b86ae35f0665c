"""How many requests a worker may run before they slow each other down, so that others are left to training. Pure."""

from collections.abc import Callable
from math import ceil

GROWTH = 1.2
"""From one number of requests that is looked at to the next: a look takes a fifth of a millisecond."""
KV_SHARE = 0.5
"""Share of the KV cache that packed requests fill when they come: they grow."""


def knee(
    token_s: Callable[[int, float], float | None],
    *,
    running: int,
    workers: int,
    kv_tokens: float,
    kv_room: int,
    slack: float,
) -> int:
    """
    Return up to how many requests a worker gets more of them before another one does; 0: they are spread.

    Args:
        token_s: Returns the seconds per token of each of some requests with tokens in the KV cache; None: not known.
        running: Requests of the fleet.
        workers: Those that could run them.
        kv_tokens: Tokens of all requests in the KV cache.
        kv_room: Tokens that a worker's KV cache holds.
        slack: Share by which tokens may take longer than if requests were spread evenly.
    """
    if not running or not workers or slack <= 0.0:
        return 0
    spread, kv_each = max(1, ceil(running / workers)), kv_tokens / running
    alone_s = token_s(spread, spread * kv_each)
    if alone_s is None:
        return 0
    most, found, requests = max(spread, int(KV_SHARE * kv_room / max(1.0, kv_each))), spread, spread
    while (requests := max(requests + 1, int(requests * GROWTH))) <= min(running, most):
        packed_s = token_s(requests, requests * kv_each)
        if packed_s is None or packed_s > (1.0 + slack) * alone_s:
            break
        found = requests
    return found if found > spread else 0
