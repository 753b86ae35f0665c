"""Token-by-token comparison of both sides' responses to the same seeds. Pure."""

from collections.abc import Sequence

from countdown.record import Difference, Pairs
from tlt_suite import TokenChunk

Responses = Sequence[Sequence[TokenChunk]]
"""By prompt and sample."""


def compare(on: Responses, off: Responses) -> Pairs:
    """Compare the responses, paired by prompt and sample."""
    found: list[Difference] = []
    max_gap, count = 0.0, 0
    for prompt, (mine, others) in enumerate(zip(on, off, strict=True)):
        for sample, (left, right) in enumerate(zip(mine, others, strict=True)):
            count += 1
            shared = shared_tokens(left, right)
            gaps = zip(left.logprobs[:shared], right.logprobs[:shared], strict=True)
            max_gap = max((max_gap, *(abs(one - other) for one, other in gaps)))
            if shared < max(len(left.token_ids), len(right.token_ids)):
                gap = _gap(left, right, shared)
                found.append(Difference(prompt=prompt, sample=sample, token=shared, gap=gap))
    return Pairs(responses=count, differences=tuple(found), max_logprob_gap=max_gap)


def shared_tokens(left: TokenChunk, right: TokenChunk) -> int:
    """Return the number of tokens before the first difference."""
    pairs = zip(left.token_ids, right.token_ids, strict=False)
    shorter = min(len(left.token_ids), len(right.token_ids))
    return next((place for place, (one, other) in enumerate(pairs) if one != other), shorter)


def _gap(left: TokenChunk, right: TokenChunk, token: int) -> float | None:
    """Return the difference between the logprobs of the two tokens; None if one response has ended."""
    if token >= min(len(left.token_ids), len(right.token_ids)):
        return None
    return abs(left.logprobs[token] - right.logprobs[token])
