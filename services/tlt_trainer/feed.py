"""Batches for the trainer, sized by the speed of the device."""

import random
from collections import deque

from tlt_trainer.frame import TrainingFrame
from tlt_trainer.frame_pool import FramePool
from tlt_trainer.pack import plan

DRAWN_BATCHES = 8
"""Batches for which frames are drawn at once: with more frames, packs are fuller."""
MIN_TOKENS = 64


def paced(tokens: int, elapsed_s: float, step_s: float, limit: int) -> int:
    """Return the size of the next batch, so that a micro-step takes at most `step_s`."""
    if elapsed_s > step_s:
        return max(MIN_TOKENS, tokens // 2)
    return min(limit, tokens * 3 // 2) if elapsed_s < step_s / 3 else tokens


class Feed:
    """
    Groups of frames, one per micro-step.

    Args:
        limit_tokens: Maximum states of a group.
        step_s: Maximum duration of a micro-step, in seconds.
        seed: Makes workers that share a cache see its data in different order.
    """

    def __init__(self, pool: FramePool, *, limit_tokens: int, step_s: float, seed: str) -> None:
        self._pool = pool
        self._limit_tokens = self._tokens = limit_tokens
        self._step_s = step_s
        self._rng = random.Random(seed)
        self._planned: deque[tuple[TrainingFrame, ...]] = deque()

    def next(self) -> tuple[TrainingFrame, ...] | None:
        """Return the next group; None: there is no data."""
        if not self._planned:
            self._planned.extend(plan(self._pool.draw(DRAWN_BATCHES * self._tokens), self._tokens, self._rng))
        return self._planned.popleft() if self._planned else None

    def shrink(self) -> int:
        """Halve the largest size of a group, since memory is short; return it."""
        self._limit_tokens = max(MIN_TOKENS, self._limit_tokens // 2)
        self._tokens = min(self._tokens, self._limit_tokens)
        self._planned.clear()
        return self._limit_tokens

    def pace(self, elapsed_s: float) -> None:
        """Adjust the group size to the duration of the last group."""
        self._tokens = paced(self._tokens, elapsed_s, self._step_s, self._limit_tokens)
