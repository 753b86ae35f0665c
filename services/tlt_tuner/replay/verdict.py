"""A policy against what is best in hindsight."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

from tlt_common.bandit import BanditConfig
from tlt_common.domain.strategy import Arm
from tlt_tuner.replay.play import Played, play_bandit, play_map
from tlt_tuner.replay.world import Place, World

REPEATS = 10
"""Draws and choices are random; one replay of a thousand rounds is off by a percent or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """The best that one arm, and one arm per batch size, could have done."""

    fixed_seconds: Mapping[Arm, float]
    """Time of each arm run all through, off where it cannot run."""
    best_by_place: Mapping[Place, Arm]
    best_by_place_seconds: float

    @property
    def best_fixed(self) -> Arm:
        """Fastest of all arms run all through."""
        return min(self.fixed_seconds, key=self.fixed_seconds.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a policy did. Times are means over replays; all produce the same tokens."""

    seconds: float
    seconds_by_replay: tuple[float, ...]
    regret: float
    """Share of its time that the best arm per batch size (and drafter) would have saved."""
    regret_best_fixed: float
    """Share of its time that the best single arm would have saved; below 0 where the policy is faster."""
    share_of_rounds: Mapping[str, float]
    switches_per_round: float


def hindsight(world: World, *, repeats: int = REPEATS) -> Hindsight:
    """Find out what was best. Ties go to the arm that drafts less."""
    best = {
        place: max(world.allowed(moment), key=lambda arm, place=place: world.length_per_second(arm, place))  # type: ignore[misc]
        for place, moment in {place: moment for moment, place in enumerate(world.places)}.items()
    }
    return Hindsight(
        fixed_seconds={
            arm: _mean_seconds([play_map(world, lambda _, arm=arm: arm, seed=seed) for seed in range(repeats)])  # type: ignore[misc]
            for arm in world.arms
        },
        best_by_place=best,
        best_by_place_seconds=_mean_seconds([play_map(world, best.__getitem__, seed=seed) for seed in range(repeats)]),
    )


def judge(world: World, config: BanditConfig, known: Hindsight, *, repeats: int = REPEATS) -> Verdict:
    """Replay the trace with a bandit in charge."""
    replays = [play_bandit(world, config, seed=seed) for seed in range(repeats)]
    seconds = _mean_seconds(replays)
    rounds: Counter[Arm] = Counter()
    for played in replays:
        rounds.update(played.rounds)
    return Verdict(
        seconds=seconds,
        seconds_by_replay=tuple(played.seconds for played in replays),
        regret=1.0 - known.best_by_place_seconds / seconds,
        regret_best_fixed=1.0 - known.fixed_seconds[known.best_fixed] / seconds,
        share_of_rounds={arm.name: count / rounds.total() for arm, count in rounds.most_common()},
        switches_per_round=sum(played.switches for played in replays) / rounds.total(),
    )


def _mean_seconds(replays: list[Played]) -> float:
    return fmean(played.seconds for played in replays)
