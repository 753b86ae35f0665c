"""Training batches, sized by the speed of the device."""

import random
from collections import deque

from tlt_trainer.data.frame import TrainingFrame
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.data.pack import cut, plan, scored_count

DRAWN_BATCHES = 8
"""Batches for which frames are drawn at once: with more frames, packs are fuller."""
MIN_TOKENS = 64
STEP_S = 0.08
"""
Maximum duration of a micro-step in seconds, to which its size is adjusted. A request that takes the device back waits
for at most one: 15 ms in the median, 79 ms in one of 100 cases (`tlt bench lease`, docs/results/services.md).
"""
MAX_GROWTH = 1.5
MARGIN = 0.9
"""Share of the target duration that a batch is sized for, so that noise does not shrink every second one."""


def paced(tokens: int, elapsed_s: float, step_s: float, limit: int) -> int:
    """Return the next batch size for micro-steps of at most `step_s`, given that this one took `elapsed_s`."""
    fit = MARGIN * step_s / elapsed_s
    if MARGIN <= fit < 1.0:  # this size is right
        return tokens
    return max(MIN_TOKENS, min(limit, int(tokens * max(0.5, min(MAX_GROWTH, fit)))))


class Feed:
    """
    Groups of frames, one per micro-step. Starts small, since the device's speed is unknown.

    Args:
        limit_tokens: Maximum states of a group.
        step_s: Maximum duration of a micro-step, in seconds.
        seed: Seed of the order, so that workers that share a cache see its data in different orders.
    """

    def __init__(self, pool: FramePool, *, limit_tokens: int, step_s: float, seed: str) -> None:
        self._pool = pool
        self._limit_tokens = limit_tokens
        self._tokens = min(MIN_TOKENS, limit_tokens)
        self._step_s = step_s
        self._rng = random.Random(seed)
        self._planned: deque[tuple[TrainingFrame, ...]] = deque()

    @property
    def tokens(self) -> int:
        """Maximum number of states in the next group."""
        return self._tokens

    def next(self) -> tuple[TrainingFrame, ...] | None:
        """Return the next group, or None if there is no data."""
        if not self._planned:
            self._plan(self._pool.draw(DRAWN_BATCHES * self._tokens))
        return self._planned.popleft() if self._planned else None

    def shrink(self) -> int:
        """Halve the maximum size of a group because memory is short; return it."""
        self._limit_tokens = max(MIN_TOKENS, self._limit_tokens // 2)
        self._resize(min(self._tokens, self._limit_tokens))
        return self._limit_tokens

    def pace(self, tokens: int, elapsed_s: float) -> None:
        """Adjust the group size to the duration of a group with this many states."""
        if elapsed_s > self._step_s:
            self._resize(min(self._tokens, paced(tokens, elapsed_s, self._step_s, self._limit_tokens)))
        elif 2 * tokens >= self._tokens:  # a smaller group does not tell how long a full one takes
            full_s = elapsed_s * self._tokens / tokens
            self._resize(max(self._tokens, paced(self._tokens, full_s, self._step_s, self._limit_tokens)))

    def _resize(self, tokens: int) -> None:
        """Plan the drawn frames again, since their groups have the old size."""
        if tokens != self._tokens:
            self._tokens = tokens
            frames = [frame for group in self._planned for frame in group]
            self._planned.clear()
            self._plan(frames)

    def _plan(self, frames: list[TrainingFrame]) -> None:
        windows = [window for frame in frames for window in cut(frame, self._tokens) if scored_count(window.header) > 0]
        self._planned.extend(plan(windows, self._tokens, self._rng))
