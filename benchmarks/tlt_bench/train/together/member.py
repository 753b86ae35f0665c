"""A simulated spot trainer: a real learner, and a clock of the seconds that a device of its own would have computed."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tlt_bench.adapt.course import DRAFTS
from tlt_bench.adapt.data import BATCH_TOKENS, Frames, packs
from tlt_bench.demo_learner import demo_learner
from tlt_trainer.drafter.loss import Pack
from tlt_trainer.learned import Snapshot
from tlt_trainer.learner import Learner


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """How a trainer takes part. Moments are shares of all tokens that the fleet is to see."""

    slowness: float = 1.0
    """Factor on the seconds of its device."""
    joins_at: float = 0.0
    leaves_at: float = 1.0
    killed_at: float | None = None
    """None: never. What it has not published is lost."""


STEADY = Behaviour()
RESTLESS = (STEADY, Behaviour(slowness=3.0), Behaviour(killed_at=0.5), Behaviour(joins_at=0.25, leaves_at=0.75))
"""Trainers that are slow, die, come late and leave early, as on spot devices."""


class TrainingMember:
    """
    One trainer. Members of a fleet take turns on one core; `seconds` is where each would be on its own device.

    Args:
        frames: Data to train on, in an order of its own.
        start: State to begin with, also after it was killed; None: from scratch.
    """

    def __init__(self, frames: Frames, behaviour: Behaviour, start: Snapshot | None, *, seed: int) -> None:
        self.behaviour = behaviour
        self.seconds = 0.0
        self._start = start
        self._packs = _endless(frames, random.Random(seed))
        self._may_die = behaviour.killed_at is not None
        self.learner = self._begin()

    def train(self, tokens: int) -> int:
        """Train on at least this many states; return how many it were."""
        seen = 0
        while seen < tokens:
            seen += self.micro_step()
        return seen

    def micro_step(self, *, steps: bool = True) -> int:
        """Learn from one pack; return its states. Only what this thread computes counts."""
        pack, began_s = next(self._packs), time.thread_time()
        self.learner.micro_step(pack, steps=steps)
        self.spend(time.thread_time() - began_s)
        return pack.tokens

    def spend(self, seconds: float) -> None:
        """Let as much time pass as an ordinary device needs this many seconds for."""
        self.seconds += self.behaviour.slowness * seconds

    def is_present(self, share: float) -> bool:
        """Return whether it trains after this share of all tokens."""
        return self.behaviour.joins_at <= share < self.behaviour.leaves_at

    def dies(self, share: float) -> bool:
        """Lose everything once the time has come, as a process that was killed; return whether it was now."""
        if not self._may_die or share < (self.behaviour.killed_at or 0.0):
            return False
        self._may_die = False
        self.learner = self._begin()
        return True

    def _begin(self) -> Learner:
        learner = demo_learner(drafts=DRAFTS)
        if self._start is not None:
            learner.restore(self._start)
        return learner


def _endless(frames: Frames, rng: random.Random) -> Iterator[Pack]:
    while True:
        yield from packs(frames, BATCH_TOKENS, rng)
