"""Reward of a round, and buckets of batch sizes."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

TRIAL_ROUNDS = 3
"""Rounds before an arm is judged by its own results: the fewest whose median is robust to one warm-up round."""


def bucket(batch: int) -> int:
    """
    Return the largest power of two not above `batch`. Rounds in the same bucket are compared.

    Raises:
        ValueError: No request is running.
    """
    if batch < 1:
        raise ValueError(f"a batch of {batch} requests has no bucket")
    return 1 << (batch.bit_length() - 1)


def reward(accepted: Sequence[int], elapsed_s: float) -> float:
    """
    Return the tokens per second of one round: a * bs / elapsed with a = sum(accepted) / bs + 1 (TLT, BEG-MAB).

    Args:
        accepted: Accepted draft tokens per running request, without the bonus token.
        elapsed_s: Seconds of draft plus verify.

    Raises:
        ValueError: No request was running, or no time passed.
    """
    if not accepted or elapsed_s <= 0.0:
        raise ValueError(f"a round of {len(accepted)} requests in {elapsed_s} s has no reward")
    return (sum(accepted) + len(accepted)) / elapsed_s


def weighted_median(values: Iterable[tuple[float, int]]) -> float:
    """
    Return the smallest value that at least half of the weight does not exceed. At least one (value, weight) pair must
    have a weight above 0.
    """
    ordered = sorted(values)
    reached = tuple(accumulate(weight for _, weight in ordered))
    return ordered[bisect_left(reached, reached[-1] / 2)][0]
