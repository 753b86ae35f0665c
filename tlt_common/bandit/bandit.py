"""The choice of each round's arm."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tlt_common.bandit.config import BanditConfig, Exploration, Judge
from tlt_common.bandit.parts import PartsTrack, linked
from tlt_common.bandit.reward import TRIAL_ROUNDS, bucket, reward
from tlt_common.bandit.rewards import RewardTrack
from tlt_common.bandit.tally import Tally
from tlt_common.bandit.track import Track
from tlt_common.domain.strategy import OFF, Arm, ArmWindow
from tlt_common.domain.tuner import Posterior

WORTH_A_TRIAL = 0.6
"""
An arm that earned less than this share of the best at the next bucket (its square at the second next, ...) is not tried
at this one at once, but left to exploration: from one power of two to the next no arm gains more on another.
"""

UNSEEN = 0.5
"""Share of the best arm's worth that an arm is explored for at least, where it was never tried."""

NEAR_GAP = 0.1
"""Exploring arms behind the best by much less than this share is as good as exploring the best."""


class Bandit:
    """
    Chooses an arm per round and learns from what the round brought.

    Off is always among the arms. An arm without experience is tried before any is judged, unless it is hopeless at
    the nearest batch size where it has some.
    """

    def __init__(self, arms: Sequence[Arm], config: BanditConfig, seed: int) -> None:
        self.arms = (OFF, *(arm for arm in dict.fromkeys(arms) if arm != OFF))
        """All arms, off first."""
        self._config = config
        self._random = Random(seed)
        self._tracks = {track.arm.name: track for track in _tracks(self.arms, config)}
        self._tallies: dict[tuple[str, int], Tally] = {}
        self._asked: tuple[int, Sequence[Arm] | None] = (0, None)
        self._candidates: tuple[Track, ...] = ()
        self._current = self._tracks[OFF.name]
        self._rounds_left = 0

    def candidates(self, batch: int, allowed: Sequence[Arm] | None = None) -> tuple[Arm, ...]:
        """Arms for `batch` running requests, off first: those of `allowed`, or of all, that the thresholds leave."""
        return tuple(track.arm for track in self._allowed(batch, allowed))

    def choose(self, batch: int, allowed: Sequence[Arm] | None = None) -> Arm:
        """
        Arm for the next round with `batch` running requests. Call once per round.

        Only off and the arms of `allowed` can come out; None allows all.

        Raises:
            ValueError: No request is running.
        """
        group = bucket(batch)
        if self._asked != (batch, allowed):  # comparing is fast where the arms are the same objects
            self._asked, self._candidates = (batch, allowed), self._allowed(batch, allowed)
        candidates = self._candidates
        if len(candidates) == 1:
            self._rounds_left = 0
            return candidates[0].arm
        if self._rounds_left == 0 or self._current not in candidates:
            self._current, self._rounds_left = self._pick(candidates, group)
        self._rounds_left -= 1
        return self._current.arm

    def stand_in(self, batch: int, allowed: Sequence[Arm]) -> Arm:
        """
        Arm for a round in which the one that was chosen has nothing to draft. That one's turn goes on.

        Raises:
            ValueError: No request is running.
        """
        candidates = self._allowed(batch, allowed)
        return candidates[0].arm if len(candidates) == 1 else self._pick(candidates, bucket(batch))[0].arm

    def record(
        self, arm: Arm, batch: int, accepted: Sequence[int], elapsed_s: float, *, drafted: int | None = None
    ) -> None:
        """
        Learn from a round: draft tokens kept per request (bonus not counted), and seconds of draft plus verify.

        `drafted` counts the draft tokens verified, over all requests; None: as many as the arm drafts.

        Raises:
            ValueError: No request was running, or no time passed.
        """
        name, group = arm.name, bucket(batch)
        reward(accepted, elapsed_s)
        self._tracks[name].add(group, accepted, elapsed_s)
        if (tally := self._tallies.get((name, group))) is None:
            tally = self._tallies[name, group] = Tally(self._config.window)
        tally.add(accepted, arm.drafted_tokens * len(accepted) if drafted is None else drafted, elapsed_s)

    def drafter_changed(self) -> None:
        """
        Try the learned arms anew: what they earned with the drafter before says nothing.

        Off does not draft and retrieval needs no drafter: they keep what they know.
        """
        for track in self._tracks.values():
            track.drafter_changed()
        self._restart()

    def policy_changed(self) -> None:
        """Judge the drafting arms by what they did so far only until they have rounds of their own again."""
        for track in self._tracks.values():
            track.policy_changed()
        self._restart()

    def _restart(self) -> None:
        self._tallies.clear()  # would be reported as earned with what is there now
        self._rounds_left = 0

    def merge(self, posterior: Posterior) -> None:
        """
        Take over what the fleet has learned, for arms with less than TRIAL_ROUNDS own rounds.

        The caller leaves out what was earned with another drafter than the loaded one.
        """
        windows: defaultdict[str, list[ArmWindow]] = defaultdict(list)
        for window in posterior.arms:
            windows[window.arm].append(window)
        for name, track in self._tracks.items():
            track.merge(windows[name])

    def windows(self) -> tuple[ArmWindow, ...]:
        """What was recorded since the last call, per arm and bucket."""
        drained, self._tallies = self._tallies, {}
        return tuple(tally.window(*key) for key, tally in drained.items())

    def _allowed(self, batch: int, allowed: Sequence[Arm] | None) -> tuple[Track, ...]:
        return tuple(
            track
            for track in self._tracks.values()
            if batch < track.below_requests and (track.arm == OFF or allowed is None or track.arm in allowed)
        )

    def _pick(self, candidates: Sequence[Track], group: int) -> tuple[Track, int]:
        """Return what to run, and for how many rounds."""
        known = {track: worth for track in candidates if (worth := track.worth(group)) is not None}
        if len(known) < len(candidates):
            guessed = {track: self._guess(track, candidates, group) for track in candidates if track not in known}
            # Among equals the longest first: its rounds tell of the shorter ones.
            track = max(guessed, key=lambda track: (guessed[track].hope, track.arm.steps))
            if guessed[track].hope >= 1.0 or not known:
                return track, min(TRIAL_ROUNDS, self._config.hold_rounds)
            most = max(known.values())
            known |= {track: max(guess.share, UNSEEN) * most for track, guess in guessed.items()}
        best = max(known, key=known.__getitem__)
        if self._random.random() < self._config.epsilon:
            return self._explored(candidates, known, best), self._config.hold_rounds
        return best, self._config.hold_rounds

    def _explored(self, candidates: Sequence[Track], known: dict[Track, float], best: Track) -> Track:
        if self._config.exploration == Exploration.UNIFORM:
            return self._random.choice(candidates)
        others = [track for track in candidates if track is not best]
        weights = [(1.0 - known[track] / known[best] + NEAR_GAP) ** -2 for track in others]
        return self._random.choices(others, weights)[0]

    def _guess(self, track: Track, candidates: Sequence[Track], group: int) -> "_Guess":
        """Judge by the nearest bucket where the track has been."""
        groups = track.groups()
        if not groups:
            return _Guess(share=1.0, hope=1.0)
        distance, nearest = min((abs(other.bit_length() - group.bit_length()), other) for other in groups)
        worths = {each: worth for each in candidates if (worth := each.worth(nearest)) is not None}
        share = worths[track] / max(worths.values())
        return _Guess(share=share, hope=min(1.0, share / WORTH_A_TRIAL**distance))


class _Guess(NamedTuple):
    """What an arm may be worth where it was not tried."""

    share: float
    """Of the best arm's worth."""
    hope: float
    """1: it may well be the best. Below: the less, the less likely."""


def _tracks(arms: Sequence[Arm], config: BanditConfig) -> Sequence[Track]:
    if config.judge == Judge.PAPER:
        return [RewardTrack(arm, config.below_requests(arm), window=config.window) for arm in arms]
    tracks = [PartsTrack(arm, config.below_requests(arm), window=config.window) for arm in arms]
    linked(tracks)
    return tracks
