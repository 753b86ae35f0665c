"""Chooses the arm of each round."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from tlt_common.bandit.config import BanditConfig
from tlt_common.bandit.reward import TRIAL_ROUNDS, bucket, reward
from tlt_common.bandit.tally import RoundTally
from tlt_common.bandit.track import ArmTrack, linked
from tlt_common.domain.arm import OFF, Arm, ArmWindow
from tlt_common.domain.tuner import Posterior

WORTH_A_TRIAL = 0.6
"""
Minimum share of the best arm's worth for an immediate trial. An arm that earned less at the next bucket (its square
at the second next, ...) is not tried at this one at once, but left to exploration: from one power of two to the
next, no arm gains more on another.
"""

UNSEEN = 0.5
"""Minimum share of the best arm's worth assumed for exploring an arm in a bucket where it was never tried."""

NEAR_GAP = 0.1
"""Arms behind the best by much less than this share are explored about as often as the best would be."""


class Bandit:
    """
    Chooses an arm per round and learns from the round's result.

    Off is always among the arms. Arms without experience are tried before any arm is judged, unless their results at
    the nearest batch size are hopeless.
    """

    def __init__(self, arms: Sequence[Arm], config: BanditConfig, seed: int) -> None:
        self.arms = (OFF, *(arm for arm in dict.fromkeys(arms) if arm != OFF))
        """All arms, off first."""
        self._config = config
        self._random = Random(seed)
        self._tracks = {track.arm.name: track for track in _tracks(self.arms, config)}
        self._tallies: dict[tuple[str, int], RoundTally] = {}
        self._last_query: tuple[int, Sequence[Arm] | None] = (0, None)
        self._candidates: tuple[ArmTrack, ...] = ()
        self._current = self._tracks[OFF.name]
        self._rounds_left = 0

    def candidates(self, batch: int, allowed: Sequence[Arm] | None = None) -> tuple[Arm, ...]:
        """Return the arms permitted for `batch` running requests, off first: of `allowed`, or of all arms, within the
        thresholds.
        """
        return tuple(track.arm for track in self._allowed(batch, allowed))

    def choose(self, batch: int, allowed: Sequence[Arm] | None = None) -> Arm:
        """
        Return the arm for the next round with `batch` running requests. Call it once per round.

        Returns only off or an arm of `allowed`; None allows all.

        Raises:
            ValueError: No request is running.
        """
        group = bucket(batch)
        if self._last_query != (batch, allowed):  # fast if the arms are the same objects
            self._last_query, self._candidates = (batch, allowed), self._allowed(batch, allowed)
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
        Return the arm for a round in which the chosen arm has nothing to draft. The chosen arm keeps its turn.

        Raises:
            ValueError: No request is running.
        """
        candidates = self._allowed(batch, allowed)
        return candidates[0].arm if len(candidates) == 1 else self._pick(candidates, bucket(batch))[0].arm

    def record(
        self,
        arm: Arm,
        batch: int,
        accepted: Sequence[int],
        elapsed_s: float,
        *,
        drafted: int | None = None,
        kv_tokens: int = 0,
    ) -> None:
        """
        Learn from a round: accepted draft tokens per request (without bonus token), and seconds of draft plus verify.

        `drafted` is the number of draft tokens verified, over all requests; None means as many as the arm drafts.
        `kv_tokens` are those in the KV cache, for reports.

        Raises:
            ValueError: No request was running, or no time passed.
        """
        name, group = arm.name, bucket(batch)
        reward(accepted, elapsed_s)
        self._tracks[name].add(group, accepted, elapsed_s)
        if (tally := self._tallies.get((name, group))) is None:
            tally = self._tallies[name, group] = RoundTally(self._config.window)
        drafted = arm.drafted_tokens * len(accepted) if drafted is None else drafted
        tally.add(accepted, drafted, elapsed_s, kv_tokens)

    def drafter_changed(self) -> None:
        """
        Forget the rewards of arms that use the drafter, so that they are tried again.

        Off and n-gram arms use no drafter and keep theirs.
        """
        for track in self._tracks.values():
            track.drafter_changed()
        self._restart()

    def policy_changed(self) -> None:
        """Treat earlier results of drafting arms as a prior until they have enough new rounds."""
        for track in self._tracks.values():
            track.policy_changed()
        self._restart()

    def _restart(self) -> None:
        self._tallies.clear()  # would be attributed to the new drafter or weights
        self._rounds_left = 0

    def merge(self, posterior: Posterior) -> None:
        """
        Adopt what the fleet has learned, for arms with fewer than TRIAL_ROUNDS own rounds.

        The caller omits results of other drafters than the loaded one.
        """
        windows: defaultdict[str, list[ArmWindow]] = defaultdict(list)
        for window in posterior.arms:
            windows[window.arm].append(window)
        for name, track in self._tracks.items():
            track.merge(windows[name])

    def windows(self) -> tuple[ArmWindow, ...]:
        """Return the results recorded since the last call, per arm and bucket."""
        drained, self._tallies = self._tallies, {}
        return tuple(tally.window(*key) for key, tally in drained.items())

    def _allowed(self, batch: int, allowed: Sequence[Arm] | None) -> tuple[ArmTrack, ...]:
        return tuple(
            track
            for track in self._tracks.values()
            if batch < track.below_requests and (track.arm == OFF or allowed is None or track.arm in allowed)
        )

    def _pick(self, candidates: Sequence[ArmTrack], group: int) -> tuple[ArmTrack, int]:
        """Return the arm to run and the number of rounds to run it for."""
        known = {track: worth for track in candidates if (worth := track.worth(group)) is not None}
        if len(known) < len(candidates):
            guessed = {track: self._guess(track, candidates, group) for track in candidates if track not in known}
            # Among equals, the longest first: its rounds also inform about shorter ones.
            track = max(guessed, key=lambda track: (guessed[track].hope, track.arm.steps))
            if guessed[track].hope >= 1.0 or not known:
                return track, min(TRIAL_ROUNDS, self._config.hold_rounds)
            best_worth = max(known.values())
            known |= {track: max(guess.share, UNSEEN) * best_worth for track, guess in guessed.items()}
        best = max(known, key=known.__getitem__)
        if self._random.random() < self._config.epsilon:
            return self._explored(candidates, known, best), self._config.hold_rounds
        return best, self._config.hold_rounds

    def _explored(self, candidates: Sequence[ArmTrack], known: dict[ArmTrack, float], best: ArmTrack) -> ArmTrack:
        """Return an arm other than the best; the closer to the best, the more likely."""
        others = [track for track in candidates if track is not best]
        weights = [(1.0 - known[track] / known[best] + NEAR_GAP) ** -2 for track in others]
        return self._random.choices(others, weights)[0]

    def _guess(self, track: ArmTrack, candidates: Sequence[ArmTrack], group: int) -> "_Guess":
        """Estimate the worth of a track from the nearest bucket where it is known."""
        groups = track.groups()
        if not groups:
            return _Guess(share=1.0, hope=1.0)
        distance, nearest = min((abs(other.bit_length() - group.bit_length()), other) for other in groups)
        worths = {each: worth for each in candidates if (worth := each.worth(nearest)) is not None}
        share = worths[track] / max(worths.values())
        return _Guess(share=share, hope=min(1.0, share / WORTH_A_TRIAL**distance))


class _Guess(NamedTuple):
    """Estimated worth of an arm where it was not tried."""

    share: float
    """Share of the best arm's worth."""
    hope: float
    """1 if it may well be the best; the lower, the less likely."""


def _tracks(arms: Sequence[Arm], config: BanditConfig) -> Sequence[ArmTrack]:
    tracks = [ArmTrack(arm, config.below_requests(arm), window=config.window) for arm in arms]
    linked(tracks)
    return tracks
