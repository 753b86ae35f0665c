"""Compares a policy to the best choices in hindsight."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from tlt_bench.replay.play import Played, play_bandit, play_fixed
from tlt_bench.replay.world import World
from tlt_common.bandit import BanditConfig
from tlt_common.bandit.round_trace import TracedRound
from tlt_common.domain.arm import OFF, Arm
from tlt_common.errors import ConfigError

REPEATS = 10
"""Draws and decisions are random; one replay of a thousand rounds is accurate to a percent or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """
    The best result possible with one arm, and with one arm per batch size.

    The best arms are determined in one half of the rounds and evaluated in the other, and vice versa; the bandit learns
    the same way. Determined and evaluated on the same rounds, the luckiest of ten arms would seem faster than it is: by
    a tenth with 30 rounds of each.
    """

    worlds: tuple[World, World]
    fixed_seconds: Mapping[Arm, float]
    """Time of each arm used throughout, with off where it cannot run."""
    best_per_batch: tuple[Mapping[int, Arm], Mapping[int, Arm]]
    """By bucket of batch sizes, determined in the first and in the second half."""
    best_per_batch_seconds: float

    @property
    def best_fixed(self) -> Arm:
        """The fastest arm when used throughout."""
        return min(self.fixed_seconds, key=self.fixed_seconds.__getitem__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Result of a policy. Times are means over replays; all replays produce the same tokens."""

    seconds: float
    seconds_by_replay: tuple[float, ...]
    """Mean of both halves, per replay."""
    regret: float
    """Share of its time that the best arm per batch size would have saved."""
    regret_best_fixed: float
    """Share of its time that the best single arm would have saved; negative if the policy is faster."""
    share_of_rounds: Mapping[str, float]
    switches_per_round: float


def hindsight(rounds: Sequence[TracedRound], *, repeats: int = REPEATS) -> Hindsight:
    """
    Determine the best arms of a trace.

    Raises:
        ConfigError: The trace is too short: one half has no round without drafts at some batch size.
    """
    worlds = World(rounds, half=0), World(rounds, half=1)
    for world in worlds:
        for moment, played in enumerate(world.rounds):
            if OFF not in world.allowed(moment):  # every policy may choose off at any time
                raise ConfigError(
                    f"the trace has too few rounds without drafts at a batch of {played.batch} (drafter "
                    f"{played.drafter}); record several of every arm at every batch size with "
                    "`tlt bench trace`",
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
    """Replay the trace under a bandit."""
    one, other = known.worlds
    replays = [
        [
            play_bandit(one, config, seed=seed, learn_from=other),
            play_bandit(other, config, seed=seed, learn_from=one),
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
    """Choose the best arm of a bucket; for a bucket missing in the other half, that of the nearest bucket present."""
    return lambda group: best[min(best, key=lambda seen: (abs(seen.bit_length() - group.bit_length()), seen))]
