"""A policy's way through a recorded world."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.strategy import OFF, Arm
from tlt_tuner.replay.world import Place, World, length_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How it went."""

    seconds: float
    rounds: Mapping[Arm, int]
    switches: int
    """Rounds that ran another arm than the round before."""


def play_bandit(world: World, config: BanditConfig, *, seed: int) -> Played:
    """Let a bandit choose, told of drafters and weights when the trace says so."""
    bandit, random = Bandit(world.arms, config, seed), Random(seed + 1)
    here, seen, walk = 0, world.rounds[0], _Walk(world)
    while here < len(world.rounds):
        now = world.rounds[here]
        if now.drafter != seen.drafter:
            bandit.drafter_changed()
        if now.policy != seen.policy:
            bandit.policy_changed()
        seen = now
        arm = bandit.choose(now.batch, world.allowed(here))
        played = world.draw(arm, here, switched=walk.would_switch(arm), random=random)
        bandit.record(arm, played.batch, played.accepted, played.elapsed_s)
        here = walk.go(arm, length_of(played), played.elapsed_s)
    return walk.played()


def play_map(world: World, choose: Callable[[Place], Arm], *, seed: int) -> Played:
    """Run the same arm wherever rounds are alike; off where it cannot run."""
    random, here, walk = Random(seed + 1), 0, _Walk(world)
    while here < len(world.rounds):
        arm = choose(world.places[here])
        if arm not in world.allowed(here):
            arm = OFF
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
