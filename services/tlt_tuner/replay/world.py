"""
What rounds of another arm would have brought.

A recorded round at some moment says what its arm brought then; of the other arms the recorded rounds of like batch size
(one power-of-two bucket) nearest to that moment are asked: one of the NEAREST is drawn. Learned arms are asked with the
drafter of that moment only. A round that switched arms is told apart from one that went on, since the first one after
plain decoding pays for what the drafter missed. An arm without recorded rounds at a bucket cannot run there. A round
that took several times as long as its like met a pause of the machine, which is not the arm's: it counts as STALL times
the median, or a few pauses would decide which arm was best in hindsight.

How far a rollout has come is counted in tokens per request: a policy that accepts more gets further per round, and
meets smaller batches earlier. All policies have the same tokens to produce; they differ by the time they take.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from statistics import median
from typing import NamedTuple

from tlt_common.bandit import bucket
from tlt_common.bandit.trace import Round
from tlt_common.domain.ids import DrafterVersion
from tlt_common.domain.strategy import OFF, Arm

NEAREST = 16
"""Recorded rounds to draw from: enough that chance is not replayed, few enough that change is."""


STRETCH = 8
"""Rounds in a row that go to the same half."""

STALL = 3.0
"""Times the median of its like that a round may have taken."""


class Place(NamedTuple):
    """Where rounds are alike."""

    group: int
    """Bucket of batch sizes."""
    drafter: DrafterVersion


class _Cell(NamedTuple):
    arm: Arm
    group: int
    drafter: DrafterVersion
    """0 for arms that do not use it."""


@dataclass(frozen=True)
class World:
    """
    A trace to be lived through again.

    With `half` 0 or 1 rounds are drawn from every other stretch of the trace only: what is found out in one half can be
    tried in the other.
    """

    rounds: Sequence[Round]
    half: int | None = None

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Arms that were recorded, off first."""
        return (OFF, *sorted({played.arm for played in self.rounds} - {OFF}))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Where the rounds were, in order."""
        return tuple(Place(bucket(played.batch), played.drafter) for played in self.rounds)

    def allowed(self, moment: int) -> tuple[Arm, ...]:
        """Arms that can run at a moment (an index of the trace), off first."""
        return self._allowed[self.places[moment]]

    def draw(self, arm: Arm, moment: int, *, switched: bool, random: Random) -> Round:
        """Play a round of an allowed arm at a moment."""
        cell = _cell(arm, self.places[moment])
        found = self._kinds[switched][cell] or self._any[cell]
        middle = bisect_left(found, moment)
        first = max(0, min(middle - NEAREST // 2, len(found) - NEAREST))
        drawn = random.choice(found[first : first + NEAREST])
        return replace(self.rounds[drawn], elapsed_s=self.times_s[drawn])

    def best_arms(self) -> Mapping[int, Arm]:
        """Per bucket of batch sizes, the arm whose rounds brought most tokens per request and second."""
        rates = {key: self._rate(moments) for key, moments in self._by_arm_and_group.items()}
        groups = {group for _, group in rates}
        return {
            group: max((rate, arm) for (arm, other), rate in rates.items() if other == group)[1] for group in groups
        }

    @cached_property
    def _by_arm_and_group(self) -> dict[tuple[Arm, int], list[int]]:
        found: dict[tuple[Arm, int], list[int]] = defaultdict(list)
        for moment in self._moments:
            found[self.rounds[moment].arm, self.places[moment].group].append(moment)
        return found

    def _rate(self, moments: Sequence[int]) -> float:
        length = sum(length_of(self.rounds[moment]) for moment in moments)
        return length / sum(self.times_s[moment] for moment in moments)

    @cached_property
    def times_s(self) -> list[float]:
        """Times of the rounds, without pauses of the machine."""
        times_s = [played.elapsed_s for played in self.rounds]
        for kinds in self._kinds.values():
            for moments in filter(None, kinds.values()):
                most_s = STALL * median(times_s[moment] for moment in moments)
                for moment in moments:
                    times_s[moment] = min(times_s[moment], most_s)
        return times_s

    @cached_property
    def _any(self) -> dict[_Cell, list[int]]:
        cells: dict[_Cell, list[int]] = defaultdict(list)
        for moment in self._moments:
            cells[_cell(self.rounds[moment].arm, self.places[moment])].append(moment)
        return cells

    @cached_property
    def _moments(self) -> Sequence[int]:
        """Rounds to draw from."""
        moments = range(len(self.rounds))
        return [moment for moment in moments if self.half is None or moment // STRETCH % 2 == self.half]

    @cached_property
    def _kinds(self) -> dict[bool, dict[_Cell, list[int]]]:
        """Rounds that switched arms (True), and those that went on."""
        return {switched: self._of_kind(switched=switched) for switched in (True, False)}

    def _of_kind(self, *, switched: bool) -> dict[_Cell, list[int]]:
        def is_kind(moment: int) -> bool:
            return switched == (moment > 0 and self.rounds[moment - 1].arm != self.rounds[moment].arm)

        return {cell: [moment for moment in moments if is_kind(moment)] for cell, moments in self._any.items()}

    @cached_property
    def _allowed(self) -> dict[Place, tuple[Arm, ...]]:
        return {place: tuple(arm for arm in self.arms if _cell(arm, place) in self._any) for place in set(self.places)}


def length_of(played: Round) -> float:
    """Tokens per request, bonus token included."""
    return sum(played.accepted) / played.batch + 1.0


def _cell(arm: Arm, place: Place) -> _Cell:
    return _Cell(arm, place.group, place.drafter if arm.learned else DrafterVersion(0))
