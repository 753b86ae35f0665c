"""Order in which the targets are struck. Pure, and determined by the seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from tlt_bench.campaign.kills.targets import CHEAP, CONTROLLER, ENGINE, REPLICA, Action, KillTarget

CHEAP_PER_COSTLY = 7
"""An engine takes a minute to start, other processes take seconds."""
WINDOW = 16
"""How far a strike may be brought forward when the group of an earlier one is still disturbed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One action on one target."""

    target: KillTarget
    action: Action

    @property
    def is_measured(self) -> bool:
        """Whether to measure the time until requests move. Nothing else is disturbed meanwhile."""
        return self.target is ENGINE and self.action is Action.HANG

    def __str__(self) -> str:
        return f"{self.action} of {self.target.name}" if self.target.count else f"{self.action} {self.target.name}"


def strikes(seed: int) -> Iterator[Strike]:
    """
    Yield strikes indefinitely. Every action on every target occurs once before any is repeated.

    Engines come first, since their strikes take longest.
    """
    choices = random.Random(seed)
    cheap, costly = _rounds(CHEAP, choices), _rounds((ENGINE, REPLICA, CONTROLLER), choices)
    yield Strike(target=ENGINE, action=Action.HANG)
    while True:
        for _ in range(CHEAP_PER_COSTLY):
            yield next(cheap)
        yield next(costly)


def _rounds(targets: tuple[KillTarget, ...], choices: random.Random) -> Iterator[Strike]:
    whole = [Strike(target=target, action=action) for target in targets for action in target.actions]
    while True:
        yield from choices.sample(whole, len(whole))


class Queue:
    """Upcoming strikes, from which the first possible one is taken."""

    def __init__(self, seed: int) -> None:
        self._source = strikes(seed)
        self._next: list[Strike] = []

    def take(self, disturbed: set[str]) -> Strike | None:
        """Return the next strike on a target of another group, or None if the window has none."""
        while len(self._next) < WINDOW:
            self._next.append(next(self._source))
        for place, strike in enumerate(self._next):
            if strike.target.group not in disturbed:
                return self._next.pop(place)
        return None
