"""Responses to the same prompt, of which trainers list each one by itself."""

from collections.abc import Sequence
from itertools import groupby
from math import gcd


def grouped(prompt_ids: Sequence[Sequence[int]], generations: int) -> tuple[list[Sequence[int]], int]:
    """
    Group prompts that are listed once per response into one with n samples each, so that engines can exploit siblings.

    `generations` is n. A process may have a part of a group, and a step may contain the same prompt twice in a row: the
    group size is the largest one that divides all runs of equal prompts.

    Returns:
        One prompt per group, and the number of samples per prompt.
    """
    samples = gcd(generations, *(len(list(same)) for _, same in groupby(prompt_ids)))
    return list(prompt_ids[::samples]), samples
