"""When the requests of a worker end, given what each has left."""

from collections.abc import Sequence

from tlt_common.forecast import TokenPace


def ends_s(
    left_tokens: Sequence[float], kv_tokens: Sequence[float], pace: TokenPace, *, stall_s: float = 0.0
) -> list[float]:
    """
    Return the seconds until each request of a worker ends: all get tokens at the same pace, faster as others end.

    Args:
        left_tokens: Of each request.
        kv_tokens: Tokens that each has in the KV cache now.
        pace: The worker's.
        stall_s: Seconds until they continue, since prompts are prefilled.
    """
    order = sorted(range(len(left_tokens)), key=lambda place: left_tokens[place])
    found, now_s, got, cached = [0.0] * len(order), stall_s, 0.0, float(sum(kv_tokens))
    for rank, place in enumerate(order):
        running, tokens = len(order) - rank, left_tokens[place] - got
        now_s += tokens * pace.token_s(running, cached + running * tokens / 2.0)
        cached += running * tokens
        found[place], got = now_s, left_tokens[place]
        cached -= kv_tokens[place] + got
    return found
