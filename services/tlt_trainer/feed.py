"""Batches for the trainer, cut to what the device does in time."""

import random
from collections import deque

from tlt_common.domain.hidden import HiddenFrame
from tlt_trainer.batch import plan
from tlt_trainer.pool import FramePool

DRAWN_BATCHES = 8
"""Frames are drawn for so many batches at once: the more, the better windows of like length are found."""
LEAST_TOKENS = 64


def paced(tokens: int, elapsed_s: float, step_s: float, limit: int) -> int:
    """Return the size of the next batch, so that a micro-step takes no longer than `step_s`."""
    if elapsed_s > step_s:
        return max(LEAST_TOKENS, tokens // 2)
    return min(limit, tokens * 3 // 2) if elapsed_s < step_s / 3 else tokens


class Feed:
    """
    Groups of frames, one for each micro-step.

    Args:
        limit_tokens: Most states of a group, padding included.
        step_s: Longest a micro-step should take.
        seed: Workers that share a cache see its data in different order.
    """

    def __init__(self, pool: FramePool, *, limit_tokens: int, step_s: float, seed: str) -> None:
        self._pool = pool
        self._limit_tokens = self._tokens = limit_tokens
        self._step_s = step_s
        self._rng = random.Random(seed)
        self._planned: deque[tuple[HiddenFrame, ...]] = deque()

    def next(self) -> tuple[HiddenFrame, ...] | None:
        """Return the next group; None: there is no data."""
        if not self._planned:
            self._planned.extend(plan(self._pool.draw(DRAWN_BATCHES * self._tokens), self._tokens, self._rng))
        return self._planned.popleft() if self._planned else None

    def pace(self, elapsed_s: float) -> None:
        """Learn how long the last group took."""
        self._tokens = paced(self._tokens, elapsed_s, self._step_s, self._limit_tokens)
