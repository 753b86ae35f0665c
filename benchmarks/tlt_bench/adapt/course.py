"""A training run: a learner, its device seconds, and its scores on held-out prompts."""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import Tensor

from tlt_bench.adapt.data import BATCH_TOKENS, SCORED_TOKENS, Frames, packs
from tlt_bench.demo_learner import demo_learner
from tlt_bench.engines.bench_engine import log
from tlt_common.domain.ids import DrafterVersion
from tlt_trainer.data.feed import DRAWN_BATCHES
from tlt_trainer.data.frame_pool import FramePool
from tlt_trainer.drafter.score import score_of
from tlt_trainer.learned import Published

DRAFTS = 7
"""Drafts of the chain whose accept length is reported."""
SCORE_EVERY_TOKENS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Training recipe; None stands for the trainers' default."""

    passes: int | None = None
    regression_weight: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePoint:
    """An intermediate score."""

    seconds: float
    """Seconds of computation in the device's thread."""
    accept_length: float


NOW = Recipe()


class Course:
    """
    A learner on one thread, with its scores.

    Args:
        held_out: Frames for scoring.
        recipe: Training recipe.
        weights: Initial drafter; None trains from scratch.
        seed: Seed of the order of the data.
    """

    def __init__(
        self,
        held_out: Frames,
        *,
        recipe: Recipe = NOW,
        weights: Mapping[str, Tensor] | None = None,
        seed: int = 0,
    ) -> None:
        self.learner = demo_learner(passes=recipe.passes, regression_weight=recipe.regression_weight, drafts=DRAFTS)
        if weights is not None:
            self.learner.follow(Published(version=DrafterVersion(0), weights=weights, steps=0, tokens=0), weights)
        self._held_out = packs(held_out, SCORED_TOKENS, random.Random(0))
        self._rng = random.Random(seed)
        self.seconds = 0.0

    def score(self) -> float:
        """Return the expected accept length of a sampled chain on the held-out frames."""
        score = score_of(self.learner.tally(pack) for pack in self._held_out)
        return score.accept_length if score else 1.0

    def train(
        self,
        frames: Frames | FramePool,
        *,
        tokens: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Train on frames, repeating them as needed, or on drawn ones, for a number of states or device seconds."""
        until_tokens = None if tokens is None else self.learner.counters.tokens + tokens
        until_s = None if seconds is None else self.seconds + seconds
        while True:
            drawn = frames.draw(DRAWN_BATCHES * BATCH_TOKENS) if isinstance(frames, FramePool) else frames
            for pack in packs(drawn, BATCH_TOKENS, self._rng):
                if until_s is not None and self.seconds >= until_s:
                    return
                if until_tokens is not None and self.learner.counters.tokens >= until_tokens:
                    return
                began_s = time.thread_time()  # of this thread: what else runs on the machine does not count
                self.learner.micro_step(pack)
                self.seconds += time.thread_time() - began_s

    def climb(self, frames: Frames, goals: Sequence[float], *, max_tokens: int) -> list[CoursePoint]:
        """Train until the last goal or `max_tokens` is reached; return the scores on the way."""
        way = [CoursePoint(seconds=0.0, accept_length=self.score())]
        while way[-1].accept_length < goals[-1] and self.learner.counters.tokens < max_tokens:
            self.train(frames, tokens=SCORE_EVERY_TOKENS)
            way.append(CoursePoint(seconds=self.seconds, accept_length=self.score()))
        log(f"  {way[-1].accept_length:.2f} tokens per round after {way[-1].seconds:.0f} device seconds")
        return way


def seconds_to(goal: float, way: Sequence[CoursePoint]) -> float | None:
    """Return when an accept length was first reached, interpolated between two scores, or None."""
    for before, after in pairwise(way):
        if after.accept_length >= goal:
            rise = after.accept_length - before.accept_length
            share = (goal - before.accept_length) / rise if rise > 0 else 1.0
            return before.seconds + max(0.0, share) * (after.seconds - before.seconds)
    return None
