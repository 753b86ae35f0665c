"""A policy's way through a recorded world."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.strategy import Arm
from tlt_tuner.replay.world import World, length_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How it went."""

    seconds: float
    rounds: Mapping[Arm, int]
    switches: int
    """Rounds that ran another arm than the round before."""


def play_bandit(world: World, config: BanditConfig, *, seed: int, heard: World | None = None) -> Played:
    """
    Let a bandit choose, told of drafters and weights when the trace says so.

    It hears of rounds drawn from `heard` (else from `world`), and rounds of `world` are what is counted: an arm whose
    few recorded rounds were lucky is then chosen, but brings no luck.
    """
    heard = heard or world
    bandit, random = Bandit(world.arms, config, seed), Random(seed + 1)
    here, seen, walk = 0, world.rounds[0], _Walk(world)
    while here < len(world.rounds):
        now = world.rounds[here]
        if now.drafter != seen.drafter:
            bandit.drafter_changed()
        if now.policy != seen.policy:
            bandit.policy_changed()
        seen = now
        allowed = [arm for arm in world.allowed(here) if arm in heard.allowed(here)]
        arm = bandit.choose(now.batch, allowed)
        switched = walk.would_switch(arm)
        told = heard.draw(arm, here, switched=switched, random=random)
        bandit.record(arm, told.batch, told.accepted, told.elapsed_s)
        played = world.draw(arm, here, switched=switched, random=random)
        here = walk.go(arm, length_of(played), played.elapsed_s)
    return walk.played()


def play_fixed(world: World, choose: Callable[[int], Arm], *, seed: int) -> Played:
    """Run the same arm whenever batch sizes are of the same bucket; off, or the first that can, where it cannot run."""
    random, here, walk = Random(seed + 1), 0, _Walk(world)
    while here < len(world.rounds):
        arm, allowed = choose(world.places[here].group), world.allowed(here)
        if arm not in allowed:
            arm = allowed[0]
        played = world.draw(arm, here, switched=walk.would_switch(arm), random=random)
        here = walk.go(arm, length_of(played), played.elapsed_s)
    return walk.played()


class _Walk:
    """How far a policy has come, in tokens per request, and what it took."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._here = 0
        self._room = length_of(world.rounds[0])
        """Tokens per request until the next moment of the trace."""
        self._arm: Arm | None = None
        self._seconds = 0.0
        self._rounds: Counter[Arm] = Counter()
        self._switches = 0

    def would_switch(self, arm: Arm) -> bool:
        return self._arm not in (None, arm)

    def go(self, arm: Arm, length: float, elapsed_s: float) -> int:
        """Go on by a round; return the moment of the trace that was reached, its length at the end."""
        self._switches += self.would_switch(arm)
        self._arm = arm
        self._rounds[arm] += 1
        rounds = self._world.rounds
        # The last round counts as far as it is needed: policies do not differ by where they overshoot.
        left = length
        while left >= self._room and self._here < len(rounds):
            left -= self._room
            self._here += 1
            if self._here < len(rounds):
                self._room = length_of(rounds[self._here])
        if self._here == len(rounds):
            self._seconds += elapsed_s * (length - left) / length
            return self._here
        self._room -= left
        self._seconds += elapsed_s
        return self._here

    def played(self) -> Played:
        return Played(seconds=self._seconds, rounds=dict(self._rounds), switches=self._switches)
