"""Runs a policy through a recorded trace."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from tlt_bench.replay.world import World, length_of
from tlt_common.bandit import Bandit, BanditConfig
from tlt_common.domain.arm import Arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """Result of a replay."""

    seconds: float
    rounds: Mapping[Arm, int]
    switches: int
    """Rounds that ran a different arm than the previous round."""


def play_bandit(world: World, config: BanditConfig, *, seed: int, learn_from: World | None = None) -> Played:
    """
    Run a bandit that is notified of new drafters and weights when they occur in the trace.

    It learns from rounds drawn from `learn_from` (default: `world`), while rounds drawn from `world` are counted. An
    arm whose few recorded rounds were lucky may then be chosen, but its luck is not counted.
    """
    learn_from = learn_from or world
    bandit, random = Bandit(world.arms, config, seed), Random(seed + 1)
    here, seen, walk = 0, world.rounds[0], _Walk(world)
    while here < len(world.rounds):
        now = world.rounds[here]
        if now.drafter != seen.drafter:
            bandit.drafter_changed()
        if now.policy != seen.policy:
            bandit.policy_changed()
        seen = now
        allowed = [arm for arm in world.allowed(here) if arm in learn_from.allowed(here)]
        arm = bandit.choose(now.batch, allowed)
        switched = walk.would_switch(arm)
        observed = learn_from.draw(arm, here, switched=switched, random=random)
        bandit.record(arm, observed.batch, observed.accepted, observed.elapsed_s)
        played = world.draw(arm, here, switched=switched, random=random)
        here = walk.go(arm, length_of(played), played.elapsed_s)
    return walk.played()


def play_fixed(world: World, choose: Callable[[int], Arm], *, seed: int) -> Played:
    """Run a fixed arm per bucket of batch sizes; if it cannot run, off (or the first arm that can)."""
    random, here, walk = Random(seed + 1), 0, _Walk(world)
    while here < len(world.rounds):
        arm, allowed = choose(world.places[here].group), world.allowed(here)
        if arm not in allowed:
            arm = allowed[0]
        played = world.draw(arm, here, switched=walk.would_switch(arm), random=random)
        here = walk.go(arm, length_of(played), played.elapsed_s)
    return walk.played()


class _Walk:
    """A policy's position in the trace, in tokens per request, and the time it took."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._here = 0
        self._room = length_of(world.rounds[0])
        """Tokens per request until the next round of the trace."""
        self._arm: Arm | None = None
        self._seconds = 0.0
        self._rounds: Counter[Arm] = Counter()
        self._switches = 0

    def would_switch(self, arm: Arm) -> bool:
        return self._arm not in (None, arm)

    def go(self, arm: Arm, length: float, elapsed_s: float) -> int:
        """Advance by one round; return the reached index of the trace, or its length at the end."""
        self._switches += self.would_switch(arm)
        self._arm = arm
        self._rounds[arm] += 1
        rounds = self._world.rounds
        # The last round counts only as far as needed, so that overshooting the end does not distinguish policies.
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
