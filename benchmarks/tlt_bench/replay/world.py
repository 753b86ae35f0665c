"""
Estimates what rounds of another arm would have produced.

A recorded round shows what its own arm produced at that moment. For another arm, one of the NEAREST recorded rounds of
that arm is drawn, nearest in time and of similar batch size (the same power-of-two bucket). Arms that use a drafter are
drawn with the drafter of that moment only. Rounds that switched arms are kept separate from rounds that did not,
because the first round after plain decoding pays for what the drafter missed. An arm without recorded rounds in a
bucket cannot run there. A round that took several times as long as similar rounds hit a pause of the machine, not of
the arm: it counts as STALL times the median, otherwise a few pauses would decide which arm was best in hindsight.

Progress through a rollout is counted in tokens per request: a policy with higher acceptance advances further per round
and reaches smaller batches earlier. All policies produce the same tokens; they differ in the time they need.
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
from tlt_common.bandit.round_trace import TracedRound
from tlt_common.domain.arm import OFF, Arm
from tlt_common.domain.ids import DrafterVersion

NEAREST = 16
"""Recorded rounds to draw from: enough to average out chance, few enough to follow changes over time."""


STRETCH = 8
"""Consecutive rounds assigned to the same half."""

STALL = 3.0
"""Upper limit of a round's time, in medians of similar rounds."""


class Place(NamedTuple):
    """Conditions under which rounds are similar."""

    group: int
    """Bucket of batch sizes."""
    drafter: DrafterVersion


class _Cell(NamedTuple):
    arm: Arm
    group: int
    drafter: DrafterVersion
    """0 for arms that do not use a drafter."""


@dataclass(frozen=True)
class World:
    """
    A trace to replay.

    With `half` 0 or 1, rounds are drawn from every other stretch of the trace only, so that what is learned on one half
    can be evaluated on the other.
    """

    rounds: Sequence[TracedRound]
    half: int | None = None

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Recorded arms, off first."""
        return (OFF, *sorted({played.arm for played in self.rounds} - {OFF}))

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Conditions of each round, in order."""
        return tuple(Place(bucket(played.batch), played.drafter) for played in self.rounds)

    def allowed(self, moment: int) -> tuple[Arm, ...]:
        """Return the arms that can run at a moment (an index into the trace), off first."""
        return self._allowed[self.places[moment]]

    def draw(self, arm: Arm, moment: int, *, switched: bool, random: Random) -> TracedRound:
        """Draw a round of an allowed arm at a given moment."""
        cell = _cell(arm, self.places[moment])
        found = self._kinds[switched][cell] or self._any[cell]
        middle = bisect_left(found, moment)
        first = max(0, min(middle - NEAREST // 2, len(found) - NEAREST))
        drawn = random.choice(found[first : first + NEAREST])
        return replace(self.rounds[drawn], elapsed_s=self.times_s[drawn])

    def best_arms(self) -> Mapping[int, Arm]:
        """Return, per bucket of batch sizes, the arm with the most tokens per request and second."""
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
        """Times of the rounds, with pauses of the machine limited to `STALL` medians."""
        times_s = [played.elapsed_s for played in self.rounds]
        for kinds in self._kinds.values():
            for moments in filter(None, kinds.values()):
                max_s = STALL * median(times_s[moment] for moment in moments)
                for moment in moments:
                    times_s[moment] = min(times_s[moment], max_s)
        return times_s

    @cached_property
    def _any(self) -> dict[_Cell, list[int]]:
        cells: dict[_Cell, list[int]] = defaultdict(list)
        for moment in self._moments:
            cells[_cell(self.rounds[moment].arm, self.places[moment])].append(moment)
        return cells

    @cached_property
    def _moments(self) -> Sequence[int]:
        """Indices of rounds to draw from."""
        moments = range(len(self.rounds))
        return [moment for moment in moments if self.half is None or moment // STRETCH % 2 == self.half]

    @cached_property
    def _kinds(self) -> dict[bool, dict[_Cell, list[int]]]:
        """Rounds that switched arms (True) and rounds that did not (False)."""
        return {switched: self._of_kind(switched=switched) for switched in (True, False)}

    def _of_kind(self, *, switched: bool) -> dict[_Cell, list[int]]:
        def is_kind(moment: int) -> bool:
            return switched == (moment > 0 and self.rounds[moment - 1].arm != self.rounds[moment].arm)

        return {cell: [moment for moment in moments if is_kind(moment)] for cell, moments in self._any.items()}

    @cached_property
    def _allowed(self) -> dict[Place, tuple[Arm, ...]]:
        return {place: tuple(arm for arm in self.arms if _cell(arm, place) in self._any) for place in set(self.places)}


def length_of(played: TracedRound) -> float:
    """Return the tokens per request, including the bonus token."""
    return sum(played.accepted) / played.batch + 1.0


def _cell(arm: Arm, place: Place) -> _Cell:
    return _Cell(arm, place.group, place.drafter if arm.needs_drafter else DrafterVersion(0))
