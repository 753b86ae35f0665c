"""A policy against what is best in hindsight."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tlt_common.bandit import BanditConfig
from tlt_common.bandit.trace import Round
from tlt_common.domain.strategy import OFF, Arm
from tlt_common.errors import ConfigError
from tlt_tuner.replay.play import Played, play_bandit, play_fixed
from tlt_tuner.replay.world import World

REPEATS = 10
"""Draws and choices are random; one replay of a thousand rounds is off by a percent or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """
    The best that one arm, and one arm per batch size, could have done.

    What is best is found in one half of the rounds and counted in the other, and the other way round, and so is what a
    bandit learns. Found and counted in the same rounds, the luckiest of ten arms would seem faster than it is: by a
    tenth with 30 rounds of each.
    """

    worlds: tuple[World, World]
    fixed_seconds: Mapping[Arm, float]
    """Time of each arm run all through, off where it cannot run."""
    best_per_batch: tuple[Mapping[int, Arm], Mapping[int, Arm]]
    """By bucket of batch sizes, as found in the first and in the second half."""
    best_per_batch_seconds: float

    @property
    def best_fixed(self) -> Arm:
        """Fastest of all arms run all through."""
        return min(self.fixed_seconds, key=self.fixed_seconds.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a policy did. Times are means over replays; all produce the same tokens."""

    seconds: float
    seconds_by_replay: tuple[float, ...]
    """One in each half, taken together."""
    regret: float
    """Share of its time that the best arm per batch size would have saved."""
    regret_best_fixed: float
    """Share of its time that the best single arm would have saved; below 0 where the policy is faster."""
    share_of_rounds: Mapping[str, float]
    switches_per_round: float


def hindsight(rounds: Sequence[Round], *, repeats: int = REPEATS) -> Hindsight:
    """
    Find out what was best.

    Raises:
        ConfigError: The trace is too short: one half of it has no round without drafts at some batch size.
    """
    worlds = World(rounds, half=0), World(rounds, half=1)
    for world in worlds:
        for moment, played in enumerate(world.rounds):
            if OFF not in world.allowed(moment):  # a policy may always choose it
                raise ConfigError(
                    f"the trace has too few rounds without drafts at a batch of {played.batch} (drafter "
                    f"{played.drafter}); accepted: several of every arm at every batch size, as `tlt bench trace` has",
                    field="trace",
                )
    best = worlds[0].best_arms(), worlds[1].best_arms()

    def seconds(*chosen: Callable[[int], Arm]) -> float:
        return fmean(
            play_fixed(world, choose, seed=seed).seconds
            for seed in range(repeats)
            for world, choose in zip(worlds, chosen, strict=True)
        )

    return Hindsight(
        worlds=worlds,
        fixed_seconds={arm: seconds(_always(arm), _always(arm)) for arm in World(rounds).arms},
        best_per_batch=best,
        best_per_batch_seconds=seconds(_by_group(best[1]), _by_group(best[0])),
    )


def judge(known: Hindsight, config: BanditConfig, *, repeats: int = REPEATS) -> Verdict:
    """Replay the trace with a bandit in charge."""
    one, other = known.worlds
    replays = [
        [
            play_bandit(one, config, seed=seed, heard=other),
            play_bandit(other, config, seed=seed, heard=one),
        ]
        for seed in range(repeats)
    ]
    times_s = tuple(fmean(played.seconds for played in both) for both in replays)
    seconds = fmean(times_s)
    played = [each for both in replays for each in both]
    rounds = _rounds(played)
    return Verdict(
        seconds=seconds,
        seconds_by_replay=times_s,
        regret=1.0 - known.best_per_batch_seconds / seconds,
        regret_best_fixed=1.0 - known.fixed_seconds[known.best_fixed] / seconds,
        share_of_rounds={arm.name: count / rounds.total() for arm, count in rounds.most_common()},
        switches_per_round=sum(each.switches for each in played) / rounds.total(),
    )


def _rounds(played: Sequence[Played]) -> Counter[Arm]:
    rounds: Counter[Arm] = Counter()
    for each in played:
        rounds.update(each.rounds)
    return rounds


def _always(arm: Arm) -> Callable[[int], Arm]:
    return lambda _: arm


def _by_group(best: Mapping[int, Arm]) -> Callable[[int], Arm]:
    """A bucket that the other half never saw gets the arm of the nearest one that it saw."""
    return lambda group: best[min(best, key=lambda seen: (abs(seen.bit_length() - group.bit_length()), seen))]
